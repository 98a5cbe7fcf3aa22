"""Reading pages of Markdown and running their examples.

- A `python` block runs with top-level await; the blocks of a page run in order and share their names.
- A `console` block holds lines `$ reme ...`, `$ export NAME=VALUE`, `$ echo $?`, and what they print, which is checked.
- A `text` block right after `<!-- prints -->` is what the python block before it prints.
- `<!-- not run: reason -->` before a block leaves it out.

In what is printed `…` stands for anything; ids, times and sizes need not be the same.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from reme_core.cli import main

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*?) -->\n+)?^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)
_CHANGING = (
    (re.compile(r"\b[0-9a-f]{32}\b"), "<id>"),
    (re.compile(r"\b20\d\d-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?Z?)?"), "<time>"),
    (re.compile(r"\b\d\.\d\d\b"), "<score>"),
    (re.compile(r"[\d,]+ bytes"), "<bytes>"),
    (re.compile(r"[\d.]+ ms\b"), "<ms>"),
)


@dataclass(frozen=True)
class Example:
    line: int
    kind: str
    body: str
    mark: str

    @property
    def is_run(self) -> bool:
        return not self.mark.startswith("not run:")


def pages() -> list[Path]:
    named = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    texts = [path for path in (ROOT / "packages").rglob("*") if path.suffix in {".md", ".mdx"}]
    return [*named, *sorted((ROOT / "docs").rglob("*.md")), *sorted(texts)]


def examples_of(text: str) -> list[Example]:
    return [
        Example(
            line=text.count("\n", 0, match.start()) + 1,
            kind=match["kind"],
            body=match["body"],
            mark=match["mark"] or "",
        )
        for match in _FENCE.finditer(text)
    ]


def agree(wanted: str, found: str) -> bool:
    """Tell whether what was printed is what the page says."""
    for pattern, name in _CHANGING:
        wanted, found = pattern.sub(name, wanted), pattern.sub(name, found)
    pattern = "(?s:.*)".join(re.escape(part) for part in wanted.strip().split("…"))
    return re.fullmatch(pattern, found.strip()) is not None


class Page:
    """Runs the examples of one page, in the folder that is current."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._names: dict[str, object] = {"__name__": "page"}
        self._printed = ""
        self._code = 0

    def run(self, example: Example) -> None:
        if example.kind == "python":
            self._printed = self._run_python(example)
        elif example.kind == "console":
            self._run_console(example.body)
        elif example.kind == "text" and example.mark == "prints":
            assert agree(example.body, self._printed), f"line {example.line}: printed\n{self._printed}"

    def compile(self, example: Example) -> None:
        if example.kind == "python":
            _compiled(example)

    def _run_python(self, example: Example) -> str:
        code = _compiled(example)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if code.co_flags & inspect.CO_COROUTINE:
                self._runner.run(_awaited(code, self._names))
            else:
                exec(code, self._names)  # noqa: S102
        return out.getvalue()

    def _run_console(self, body: str) -> None:
        commands = re.split(r"^\$ ", body, flags=re.MULTILINE)
        assert not commands[0].strip(), "a console block begins with a command"
        for command in commands[1:]:
            line, _, wanted = command.replace("\\\n", " ").partition("\n")
            found = self._run_command(shlex.split(line, comments=True))
            assert agree(wanted, found), f"$ {line}\nprinted\n{found}"

    def _run_command(self, words: list[str]) -> str:
        match words:
            case ["export", assignment]:
                name, _, value = assignment.partition("=")
                os.environ[name] = value
                return ""
            case ["echo", "$?"]:
                return str(self._code)
            case ["reme", *arguments]:
                out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                    self._code = main(arguments)
                return out.buffer.getvalue().decode()  # type: ignore[attr-defined]
            case _:
                raise AssertionError(f"no example can run {words}")


def _compiled(example: Example) -> CodeType:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # and none of this module, whose annotations are texts
    return compile(example.body, f"line {example.line}", "exec", flags=flags, dont_inherit=True)


async def _awaited(code: CodeType, names: dict[str, object]) -> None:
    await eval(code, names)  # noqa: S307
