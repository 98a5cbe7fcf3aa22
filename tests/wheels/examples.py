"""The first example of each extra and of each distribution, as it stands on its page."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.docs.doc_pages import ROOT, examples_of
from tests.support.vocabulary import write_vocabulary
from tests.wheels.built import distribution_of, projects

_RUNNER = "run_page.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What is installed, and what is to run then.

    `page` and `begins`: the page, and words of the first block that is run of it, with the block that says what is
    printed, if one follows. `program`: instead, a file of `examples` and its folder. `command`: what is run besides.
    `uvx`: the README's line for MCP clients is run, too.
    """

    distribution: str = "reme-memory"
    extra: str = ""
    page: str = ""
    begins: str = ""
    program: str = ""
    command: tuple[str, ...] = ()
    uvx: bool = False
    besides: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return what it is called on the command line."""
        return self.extra or self.distribution

    def commands(self, folder: Path) -> list[Sequence[str]]:
        """Put what is needed into a new folder; return the commands that are to run there."""
        folder.mkdir()
        commands: list[Sequence[str]] = []
        if self.page:
            shutil.copy(ROOT / "tests" / "docs" / "doc_pages.py", folder)
            (folder / _RUNNER).write_text(_PROGRAM, encoding="utf-8")
            (folder / "blocks.json").write_text(json.dumps(self._blocks()), encoding="utf-8")
            commands.append(["python", _RUNNER])
        if self.program:
            shutil.copytree((ROOT / "examples" / self.program).parent, folder / "examples")
            commands.append(["python", f"examples/{Path(self.program).name}"])
        if self.extra == "tiktoken":
            write_vocabulary(folder / "o200k_base.tiktoken")
        if self.command:
            commands.append(self.command)
        return commands

    def _blocks(self) -> list[tuple[int, str, str, str]]:
        examples = examples_of((ROOT / self.page).read_text(encoding="utf-8"))
        [first, *_] = [place for place, item in enumerate(examples) if self.begins in item.body]
        follows = [item for item in examples[first + 1 : first + 2] if item.mark == "prints"]
        # A block that can't be run among the tests of the pages is run here, where its server is.
        run = [(examples[first], ""), *((item, item.mark) for item in follows)]
        return [(item.line, item.kind, item.body, mark) for item, mark in run]


def uvx_line() -> tuple[dict[str, str], list[str]]:
    """Return the variables and the command of the README's line that begins with `uvx --from 'reme-memory[serve]'`."""
    [line] = re.findall(
        r"^\$ (.* )?uvx --from 'reme-memory\[serve\]' (.*)$", (ROOT / "README.md").read_text("utf-8"), re.M
    )
    return dict(word.split("=", 1) for word in shlex.split(line[0])), shlex.split(line[1])


_PROGRAM = """
import asyncio, json, pathlib
from doc_pages import Example, Page

with asyncio.Runner() as runner:
    page = Page(runner)
    for line, kind, body, mark in json.loads(pathlib.Path("blocks.json").read_text(encoding="utf-8")):
        page.run(Example(line=line, kind=kind, body=body, mark=mark))
"""

_OPENAI = ("OPENAI_API_KEY", "OPENAI_BASE_URL")

_PUBLISHED = {
    "langchain-reme": Check(
        distribution="langchain-reme", page="packages/langchain-reme/README.md", begins="ReMeMiddleware"
    ),
    "langgraph-checkpoint-reme": Check(
        distribution="langgraph-checkpoint-reme",
        page="packages/langgraph-checkpoint-reme/README.md",
        begins="ReMeSaver",
        besides=("langgraph",),
    ),
    "reme-memory-bench": Check(distribution="reme-memory-bench", command=("reme", "bench", "sets")),
}
_TIKTOKEN = """
from pathlib import Path
from reme_core.models import TiktokenCounter
assert TiktokenCounter('o200k_base', file=Path('o200k_base.tiktoken')).count('the') == 1
"""

_ANTHROPIC = """
from reme_core.tools.files import AnthropicMemoryTool
tool = AnthropicMemoryTool('notes')
print(tool.call({'command': 'create', 'path': '/memories/a.md', 'file_text': 'Ann surfs.'}))
assert 'Ann surfs.' in tool.call({'command': 'view', 'path': '/memories/a.md'})
"""

CHECKS = (
    Check(page="README.md", begins="ReMe.sync("),
    Check(extra="openai", page="README.md", begins='llm={"backend": "openai"', variables=_OPENAI),
    Check(extra="qdrant", page="docs/qdrant.md", begins='"location": ":memory:"'),
    Check(extra="postgres", page="docs/postgres.md", begins='"backend": "postgres"', variables=("REME_DATABASE_URL",)),
    Check(extra="tiktoken", command=("python", "-c", _TIKTOKEN)),
    Check(extra="anthropic", command=("python", "-c", _ANTHROPIC)),
    Check(extra="otel", command=("python", "-c", "import opentelemetry.trace"), page="README.md", begins="ReMe.sync("),
    Check(extra="langgraph", page="docs/langchain.md", begins='ReMeStore.from_path("notes.db")'),
    Check(extra="langchain", page="README.md", begins="ReMeMiddleware(memory"),
    Check(extra="agentscope1", program="agentscope1/personal_assistant.py"),
    Check(extra="agentscope2", program="agentscope2/personal_assistant.py"),
    Check(extra="openai-agents", page="docs/openai_agents.md", begins="ReMeSession("),
    Check(extra="files", page="docs/files.md", begins="FileMemory("),
    Check(extra="cli", page="docs/cli.md", begins="$ reme add"),
    Check(extra="serve", page="docs/serving.md", begins="make_served(", uvx=True),
    *(_PUBLISHED.get(name, Check(distribution=name)) for name in map(distribution_of, projects()[1:])),
)
"""What is tried, in this order; a distribution that has no row is installed and nothing more."""
