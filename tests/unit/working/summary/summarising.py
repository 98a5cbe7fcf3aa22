"""Short ways to write compactions in tests, a summariser that follows its prompt, and what prompts show."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from reme_core.models import CharacterTokenCounter
from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import Message, TextBlock, ToolResultBlock, Usage
from reme_core.text import estimate_tokens, split_sentences
from reme_core.working.summary.compact import CompactRequest
from reme_core.working.summary.sections import Section, Summary, parse_summary, summary_of

COUNTER = CharacterTokenCounter()
SAID = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
REFERENCE, EARLIER, KNOWN, FORGED = "aaaa000011112222", "bbbb000011112222", "cccc000011112222", "dddd000011112222"

PREVIOUS = summary_of(
    {
        Section.GOAL: ["Move the billing service of Acme to PostgreSQL 16"],
        Section.CONSTRAINTS: ["Never touch the table ledger_archive", "Budget 4,500 euros"],
        Section.PROGRESS: ["Schema of billing exported to /srv/dump/billing.sql"],
        Section.DECISIONS: ["pgloader was chosen over a script"],
        Section.NEXT_STEPS: ["Load the dump on db-staging-2"],
        Section.CONTEXT: ["Host db-staging-2 listens on port 5433"],
    }
).text


def message(text: str, *, role: str = "user", number: int = 0, name: str | None = None) -> Message:
    content: Any = (ToolResultBlock(call_id=f"c{number}", output=text),) if role == "tool" else (TextBlock(text=text),)
    return Message(
        message_id=f"m{number}", role=role, name=name, content=content, created_at=SAID + timedelta(minutes=number)
    )


def talk(*texts: str) -> list[Message]:
    """User and assistant in turn, a minute apart."""
    return [message(text, role=("user", "assistant")[n % 2], number=n) for n, text in enumerate(texts)]


def long_talk(count: int, words: int = 40) -> list[Message]:
    """Messages that differ, each with a number and a path of its own."""
    told = "pgloader copied rows of the billing service and reported how many stayed behind on the staging host"
    filler = told.split()
    said = []
    for n in range(count):
        body = " ".join(filler[(n + k) % len(filler)] for k in range(words))
        said.append(f"Step {1000 + n}: {body} in /srv/step/{n}.log. We decided to keep batch {n}.")
    return talk(*said)


def request(messages: Sequence[Message], **options: Any) -> CompactRequest:
    basis: dict[str, Any] = {"reference": REFERENCE, "limit_tokens": 400, "window_tokens": 16_000}
    if options.get("previous_summary"):
        basis |= {"earlier": EARLIER}
    return CompactRequest(messages=messages, **{**basis, **options})


def shown(asked: ChatRequest, name: str) -> str:
    """What stands in the fence of this name."""
    text = asked.messages[-1].text
    found = re.search(rf"^<{name}>\n(.*?)\n</{name}>$", text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def shown_lines(asked: ChatRequest) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown(asked, "conversation").split("\n")]


def prompt_tokens(asked: ChatRequest) -> int:
    return sum(estimate_tokens(item.full_text) for item in asked.messages)


def answered(text: str) -> ChatResult:
    return ChatResult(message=Message(role="assistant", content=(TextBlock(text=text),)), usage=Usage(model_calls=1))


class GoodModel:
    """A `ChatModel` that keeps what the summary says and adds the first sentence of each message; the oldest go.

    `bad` takes the place of answers: a function of the request and the number of the call, from 0; None answers well.
    """

    def __init__(self, bad: Callable[[ChatRequest, int], object] | None = None, limit: int = 400) -> None:
        self.bad = bad
        self.limit = limit
        self.requests: list[ChatRequest] = []

    async def chat(self, asked: ChatRequest) -> ChatResult:
        self.requests.append(asked)
        said = self.bad(asked, len(self.requests) - 1) if self.bad is not None else None
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, ChatResult):
            return said
        return answered(said if isinstance(said, str) else self.good(asked))

    def good(self, asked: ChatRequest) -> str:
        so_far = shown(asked, "summary")
        summary = Summary() if so_far == "none so far" else parse_summary(so_far)
        if not summary.of(Section.GOAL):
            first = shown_lines(asked)[0]["text"]
            summary = summary.with_lines(Section.GOAL, [first[:100]])
        for line in shown_lines(asked):
            sentence = (split_sentences(line["text"]) or [""])[0][:120]
            progress = (*summary.of(Section.PROGRESS), sentence)
            while progress and COUNTER.count(summary.with_lines(Section.PROGRESS, progress).text) > 0.75 * self.limit:
                progress = progress[1:]
            summary = summary.with_lines(Section.PROGRESS, progress)
        return summary.text
