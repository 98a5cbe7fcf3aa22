"""Compare the variants of the agentic strategy over one conversation, beside the simple strategy.

    python tests/benchmarks/experiments.py CONVERSATION [--model NAME] [--sessions N] [--json FILE]

CONVERSATION is JSON: a list of messages, or an object with `sessions`, such as examples/demo_conversation.json. The
model is called at REME_LLM_BASE_URL with REME_LLM_API_KEY (or OPENAI_BASE_URL, OPENAI_API_KEY). Without `--model` a
stand-in answers, which shows calls and the length of prompts, and nothing about quality.

Each variant summarises the sessions one after the other into a fresh memory. It is a combination of
  thinking  none; parameter: each tool call has to say `thinking`; tool: there is a `think_tool`
  mode      single: a tool call is about one thing; multiple: it takes a list
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from stand_in import StandIn

from reme_core import AgenticSummarizer, ReMe, RetryPolicy, SimpleSummarizer
from reme_core.errors import ModelRejectedError, ModelUnavailableError, PartialFailureError, ReMeError
from reme_core.facade import config
from reme_core.ports import ChatModel, ChatRequest, ChatResult
from reme_core.schema import MemoryType, Usage
from reme_core.text import Language

DEMO = Path(__file__).parents[2] / "examples" / "demo_conversation.json"
STAND_IN = "SCRIPTED STAND-IN, no model: calls and tokens show the machinery, memories are copies of what was said"
THINKING = ("none", "parameter", "tool")
MODES = ("single", "multiple")
_SHOWN = 100


@dataclass(frozen=True)
class Variant:
    """A way of summarising; `thinking` and `mode` are empty for the simple strategy, which has no tools."""

    strategy: str
    thinking: str = ""
    mode: str = ""

    def summarizer(self, language: Language | None) -> SimpleSummarizer | AgenticSummarizer:
        if self.strategy == "simple":
            return SimpleSummarizer(language=language)
        return AgenticSummarizer(
            language=language,
            enable_multiple=self.mode == "multiple",
            enable_thinking_params=self.thinking == "parameter",
            enable_think_tool=self.thinking == "tool",
        )


VARIANTS = (Variant("simple"), *(Variant("agentic", thinking, mode) for thinking in THINKING for mode in MODES))


@dataclass(frozen=True)
class Session:
    session_id: str
    messages: list[Any]


@dataclass
class Row:
    """What a variant cost and came to; `milliseconds` are those of the whole summaries, as a clock on the wall."""

    strategy: str
    thinking: str
    mode: str
    model_calls: int = 0
    tool_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    milliseconds: float = 0.0
    memories: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class Counted:
    """A `ChatModel` that counts what another one is asked, failed calls included."""

    def __init__(self, model: ChatModel) -> None:
        self._model = model
        self.usage = Usage()
        self.tool_calls = 0

    async def chat(self, request: ChatRequest) -> ChatResult:
        try:
            result = await self._model.chat(request)
        except ReMeError:
            self.usage += Usage(model_calls=1)
            raise
        self.usage += result.usage
        self.tool_calls += len(result.message.call_ids)
        return result


def read_conversation(path: Path) -> tuple[str, list[Session]]:
    """Return the user whose conversation it is, and its sessions (ValueError: it has another form)."""
    loaded = json.loads(path.read_text(encoding="utf-8"))
    user = loaded.get("user_id", "user") if isinstance(loaded, dict) else "user"
    given = loaded.get("sessions", loaded.get("messages")) if isinstance(loaded, dict) else loaded
    if not isinstance(given, list) or not given or not all(isinstance(item, (dict, list)) for item in given):
        msg = f"{path}: wanted a list of messages, or an object with `sessions`, each with `messages`"
        raise ValueError(msg)
    if not all(isinstance(item, dict) and isinstance(item.get("messages"), list) for item in given):
        return user, [Session("session-1", given)]
    return user, [Session(item.get("session_id", f"session-{n}"), item["messages"]) for n, item in enumerate(given, 1)]


async def compare(
    model: ChatModel, sessions: Sequence[Session], *, user: str, language: Language | None = None
) -> list[Row]:
    """Run every variant, one after the other."""
    return [await measure(variant, model, sessions, user=user, language=language) for variant in VARIANTS]


async def measure(
    variant: Variant, model: ChatModel, sessions: Sequence[Session], *, user: str, language: Language | None
) -> Row:
    """Run one variant in a memory of its own; what fails stands in the row."""
    row, counted = Row(**asdict(variant)), Counted(model)
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        try:
            # One attempt: what fails is to be seen, and not to be made good by a later try.
            async with ReMe(
                "experiment", folder, llm=counted, embedding=None, retry=RetryPolicy(max_attempts=1)
            ) as memory:
                memory.set_summarizer(variant.summarizer(language))
                begun = time.perf_counter()
                await summarise(memory, sessions, row, user=user)
                row.milliseconds = (time.perf_counter() - begun) * 1000
                counts = (await memory.stats(user_id=user)).current_memories
                row.memories = {str(kind): n for kind, n in sorted(counts.items()) if n and kind != MemoryType.META}
        except ReMeError as exc:
            row.failures.append(reason(exc))
            row.milliseconds = row.milliseconds or (time.perf_counter() - begun) * 1000
    usage = counted.usage
    row.model_calls, row.tool_calls = usage.model_calls, counted.tool_calls
    row.prompt_tokens, row.completion_tokens = usage.prompt_tokens, usage.completion_tokens
    return row


async def summarise(memory: ReMe, sessions: Sequence[Session], row: Row, *, user: str) -> None:
    """Go through the sessions; a model that can't be reached, or doesn't want us, is not asked again."""
    for session in sessions:
        try:
            await memory.summary(session.messages, user_id=user, session_id=session.session_id, end_session=True)
        except PartialFailureError as exc:
            row.failures += [f"{session.session_id}: {reason(failure)}" for failure in exc.failures]
            if any(isinstance(failure, (ModelUnavailableError, ModelRejectedError)) for failure in exc.failures):
                return


def reason(failure: ReMeError) -> str:
    return f"{type(failure).__name__}: {failure}"


def show(rows: Sequence[Row]) -> str:
    """Return the table."""
    heads = ("strategy", "thinking", "mode", "calls", "tool calls", "prompt tokens", "completion tokens", "ms")
    lines: list[tuple[str, ...]] = [(*heads, "memories", "failures")]
    for row in rows:
        numbers = (row.model_calls, row.tool_calls, row.prompt_tokens, row.completion_tokens, round(row.milliseconds))
        kinds = ", ".join(f"{kind} {n}" for kind, n in row.memories.items()) or "none"
        why = ""
        if row.failures:
            first = " ".join(row.failures[0].split())
            why = f"{len(row.failures)}: {first if len(first) <= _SHOWN else first[:_SHOWN] + '…'}"
        cells = (row.strategy, row.thinking or "-", row.mode or "-", *(f"{number:,}" for number in numbers))
        lines.append((*cells, kinds, why or "none"))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if 3 <= column <= 7 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


async def run_with(name: str | None, sessions: Sequence[Session], *, user: str, language: Language | None) -> list[Row]:
    """Run every variant with a model of the environment's endpoint, or with the stand-in (ConfigurationError)."""
    if name is None:
        return await compare(StandIn(), sessions, user=user, language=language)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        settings = {"backend": "openai", "model": name}
        ports = config.build(working_dir=folder, llm=settings, embedding=None, vector_store=None)
        for part in ports.owned:
            stack.push_async_callback(part.close)
        assert ports.llm is not None
        return await compare(ports.llm, sessions, user=user, language=language)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("conversation", nargs="?", type=Path, default=DEMO, help="JSON; by default the demo's")
    parser.add_argument("--model", metavar="NAME", help="the model's name at the endpoint; else a stand-in answers")
    parser.add_argument("--user", help="whose memory it is; by default as the conversation says")
    parser.add_argument("--language", choices=("en", "zh"), help="of the prompts; by default that of the conversation")
    parser.add_argument("--sessions", type=int, metavar="N", help="only the first N sessions")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    options = parser.parse_args(arguments)
    if options.sessions is not None and options.sessions < 1:
        parser.error("--sessions: wanted 1 or more")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0; 1 if every variant has failed; 2 if nothing could be begun."""
    options = parse(arguments)
    try:
        user, sessions = read_conversation(options.conversation)
        user, sessions = options.user or user, sessions[: options.sessions]
        rows = asyncio.run(run_with(options.model or None, sessions, user=user, language=options.language))
    except (OSError, ValueError, ReMeError) as exc:
        print(f"experiments: {exc}", file=sys.stderr)
        return 2
    messages = sum(len(session.messages) for session in sessions)
    print(f"model: {options.model or STAND_IN}")
    print(f"conversation: {options.conversation}, {len(sessions)} session(s), {messages} messages\n")
    print(show(rows))
    if options.json:
        found = {
            "model": options.model or None,
            "stand_in": not options.model,
            "conversation": str(options.conversation),
            "sessions": len(sessions),
            "messages": messages,
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if all(row.failures for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
