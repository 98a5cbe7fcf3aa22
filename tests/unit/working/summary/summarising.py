"""Short ways to write compactions in tests, a summariser that follows its prompt, and what prompts show."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from reme_core.errors import ModelOutputError
from reme_core.models import CharacterTokenCounter
from reme_core.ports import ChatRequest, ChatResult
from reme_core.schema import Message, TextBlock, ToolResultBlock, Usage
from reme_core.text import estimate_tokens, split_sentences
from reme_core.working.summary.sections import Section, Summary, summary_of
from reme_core.working.summary.summary_fit import CompactRequest

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


def summary_shown(asked: ChatRequest) -> Summary:
    """The summary so far, as the request shows it."""
    return Summary(tuple(tuple(lines.values()) for lines in _sections_shown(asked)))


def numbers_shown(asked: ChatRequest, section: Section) -> dict[int, str]:
    """The numbers of the lines of a section, as the request shows them."""
    return {int(number): line for number, line in _sections_shown(asked)[list(Section).index(section)].items()}


def _sections_shown(asked: ChatRequest) -> list[dict[str, str]]:
    so_far = shown(asked, "summary")
    found: dict[str, dict[str, str]] = {}
    if so_far != "none so far":
        found = dict(item for line in so_far.split("\n") for item in json.loads(line).items())
    return [found.get(FIELDS[section], {}) for section in Section]


FIELDS = {section: section.lower().replace(" ", "_") for section in Section}


def answer_of(lines: Mapping[Section, Sequence[str]], gone: Sequence[int] = ()) -> str:
    """What a model says that has these new lines."""
    return json.dumps({"gone": list(gone), **{FIELDS[section]: list(lines.get(section, ())) for section in Section}})


def answer_with(summary: Summary, gone: Sequence[int] = ()) -> str:
    """What a model says that has the lines of a summary as new ones."""
    return answer_of({section: summary.of(section) for section in Section}, gone)


def answered(text: str) -> ChatResult:
    """As our clients read an answer: what is no JSON is an error that holds the text."""
    try:
        value = json.loads(text)
    except ValueError:
        msg = "wanted JSON"
        raise ModelOutputError(msg, raw=text) from None
    message = Message(role="assistant", content=(TextBlock(text=text),))
    return ChatResult(message=message, usage=Usage(model_calls=1), parsed=value if isinstance(value, dict) else None)


class GoodModel:
    """A `ChatModel` that adds the first sentence of each message; when it gets too long the oldest are gone.

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
        new: dict[Section, list[str]] = {}
        summary = summary_shown(asked)
        if not summary.of(Section.GOAL):
            new[Section.GOAL] = [shown_lines(asked)[0]["text"][:100]]
        told = [(split_sentences(line["text"]) or [""])[0][:120] for line in shown_lines(asked)]
        there = numbers_shown(asked, Section.PROGRESS)
        kept = [*there, *range(-len(told), 0)]
        texts = {**there, **dict(zip(range(-len(told), 0), told, strict=True))}
        while kept:
            lines = [texts[number] for number in kept]
            if COUNTER.count(summary.with_lines(Section.PROGRESS, lines).text) <= 0.7 * self.limit:
                break
            kept = kept[1:]
        new[Section.PROGRESS] = [texts[number] for number in kept if number < 0]
        return answer_of(new, [number for number in there if number not in kept])
