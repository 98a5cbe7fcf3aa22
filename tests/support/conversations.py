"""Random conversations as agents have them: `conversations()` gives lists of messages in which all calls are answered.

All calls but, in the last turn, those that still wait. Long ones repeat a few drawn turns, so that they stay quick.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle

from hypothesis import strategies as st
from pydantic import JsonValue

from reme_core.schema import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    OtherBlock,
    Role,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from reme_core.testing.store_values import NOW

NAMES = st.none() | st.sampled_from(["Alice", "小明", "planner"])
TOOLS = st.sampled_from(["search", "read_file", "run_shell", "查询天气"])
# All that a message may hold: no lone surrogates, no NUL.
CHARACTERS = st.characters(codec="utf-8", exclude_characters="\0")

SHORT = st.text(CHARACTERS, max_size=60) | st.sampled_from(["", " ", "\n\n", "ok", "好的。", "…", "👩‍👩‍👧"])
ENGLISH = st.builds(
    lambda word, times: f"{word} the deploy of build 4711 failed in /srv/app/main.py. " * times,
    st.text(st.sampled_from("abcdefgh"), min_size=1, max_size=8),
    st.integers(1, 40),
)
CHINESE = st.builds(
    lambda part, times: part * times, st.sampled_from(["今天的部署失败了。", "予定を確認します。"]), st.integers(1, 150)
)
LINES = st.builds(lambda count: "".join(f"{n}: GET /item/{n} 200\n" for n in range(count)), st.integers(1, 150))
TEXTS = st.one_of(SHORT, ENGLISH, CHINESE, LINES)

JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(CHARACTERS, max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(CHARACTERS, max_size=6), inner, max_size=4),
    max_leaves=10,
)
ARGUMENTS: st.SearchStrategy[dict[str, JsonValue] | str] = st.dictionaries(
    st.sampled_from(["query", "path", "lines", "filter"]), JSON, max_size=3
) | st.sampled_from(["{not json", "", "x" * 900])
OUTPUTS = TEXTS | JSON.map(lambda value: json.dumps(value, ensure_ascii=False))
HUGE = st.builds(
    lambda part, times: part * times,
    st.sampled_from(["x", "all work and no play\n", '{"id": 1, "tags": ["a", "b"]}, ', "数据很多，", "\x01\x02é\t"]),
    st.integers(1_000, 20_000),
)

SAID = st.lists(TEXTS, min_size=1, max_size=5)
CALLED_WITH = st.lists(ARGUMENTS, min_size=1, max_size=3)
RETURNED = st.lists(OUTPUTS, min_size=1, max_size=5)
LONG = st.lists(HUGE, max_size=2)
KINDS = st.sampled_from(["text", "text", "text", "image", "file"])
IMAGES = st.sampled_from(["https://example.com/a.png", "data:image/png;base64,AAAA"])
CAPTIONS = st.none() | SHORT
FILES = st.sampled_from(["https://example.com/a.pdf", "data:application/pdf;base64,AAAA"])
FILE_NAMES = st.none() | st.just("报告.pdf")


@dataclass(frozen=True, slots=True)
class Step:
    """What an assistant says and calls for at once, and what comes back."""

    said: tuple[ContentBlock, ...]
    calls: tuple[tuple[str, dict[str, JsonValue] | str], ...]
    outputs: tuple[str, ...]
    together: bool
    late: int

    @property
    def size(self) -> int:
        """How many messages it is at most."""
        return 1 + len(self.calls)


@dataclass(frozen=True, slots=True)
class Turn:
    """A user's message and all that follows on it."""

    name: str | None
    asked: tuple[ContentBlock, ...]
    steps: tuple[Step, ...]
    answer: str

    @property
    def size(self) -> int:
        """How many messages it is at most."""
        return 2 + sum(step.size for step in self.steps)


def conversations(min_messages: int = 1, max_messages: int = 5000) -> st.SearchStrategy[list[Message]]:
    """Give conversations of so many messages, with ids m0, m1, …, call ids c0, c1, … and rising times."""
    return _conversations(min_messages, max_messages)


def windows() -> st.SearchStrategy[int]:
    """Give the windows of models in tokens, small ones as often as large ones."""
    return st.sampled_from([2_000, 4_096, 16_000, 32_000, 128_000, 1_000_000]) | st.integers(2_000, 1_000_000)


def prompts(tokens: int) -> st.SearchStrategy[str]:
    """Give system prompts of up to so many tokens, at four characters each."""
    return st.integers(0, tokens * 4).map(lambda size: ("You are helpful. " * (size // 17 + 1))[:size])


@dataclass(frozen=True, slots=True)
class _Pool:
    """What the parts of one conversation are drawn from: a few values, as drawing each anew takes most of a test."""

    texts: st.SearchStrategy[str]
    arguments: st.SearchStrategy[dict[str, JsonValue] | str]
    outputs: st.SearchStrategy[str]


def _pool(texts: Sequence[str], arguments: Sequence[dict[str, JsonValue] | str], outputs: Sequence[str]) -> _Pool:
    return _Pool(st.sampled_from(texts), st.sampled_from(arguments), st.sampled_from(outputs))


def _block(draw: st.DrawFn, pool: _Pool) -> ContentBlock:
    match draw(KINDS):
        case "image":
            return ImageBlock(url=draw(IMAGES), caption=draw(CAPTIONS))
        case "file":
            return FileBlock(url=draw(FILES), name=draw(FILE_NAMES))
    return TextBlock(text=draw(pool.texts))


def _blocks(draw: st.DrawFn, pool: _Pool) -> tuple[ContentBlock, ...]:
    """Draw parts of a user's message, at least one that says something."""
    blocks = tuple(_block(draw, pool) for _ in range(draw(st.integers(1, 3))))
    if any(block.type != "text" or block.text.strip() for block in blocks):
        return blocks
    return (*blocks, TextBlock(text="go on"))


def _step(draw: st.DrawFn, pool: _Pool) -> Step:
    said = list[ContentBlock]()
    if draw(st.booleans()):
        said.append(OtherBlock(kind="thinking", data={"thinking": draw(pool.texts), "signature": "c2lnbmVk"}))
    if draw(st.booleans()):
        said.append(TextBlock(text=draw(pool.texts)))
    calls = tuple((draw(TOOLS), draw(pool.arguments)) for _ in range(draw(st.integers(1, 4))))
    late = draw(st.integers(0, len(calls))) if draw(st.integers(0, 4)) == 0 else 0
    answers = tuple(draw(pool.outputs) for _ in calls)
    return Step(said=tuple(said), calls=calls, outputs=answers, together=draw(st.booleans()), late=late)


def _turn(draw: st.DrawFn, pool: _Pool) -> Turn:
    name, asked, answer = draw(NAMES), _blocks(draw, pool), draw(pool.texts)
    steps = tuple(_step(draw, pool) for _ in range(draw(st.integers(0, 3))))
    return Turn(name=name, asked=asked, steps=steps, answer=answer if answer.strip() else "done")


@st.composite
def _conversations(draw: st.DrawFn, least: int, most: int) -> list[Message]:
    count = draw(st.integers(least, min(most, max(least, 40))) | st.integers(least, most))
    writer = _Writer()
    for _ in range(min(draw(st.integers(0, 2)), count - 1)):
        writer.add("system", (TextBlock(text=draw(ENGLISH)),))
    texts, arguments, outputs, long = draw(SAID), draw(CALLED_WITH), draw(RETURNED), draw(LONG)
    pool = _pool(texts, arguments, outputs)
    wide = _pool([*texts, *long], arguments, [*outputs, *long])
    turns = [_turn(draw, pool) for _ in range(draw(st.integers(1, 3)))]
    huge = (draw(st.integers(0, 3)), _turn(draw, wide)) if draw(st.booleans()) else None
    last, answered = _turn(draw, wide), draw(st.none() | st.integers(0, 3))
    room = count - len(writer.messages)
    ends = last.size <= room
    room -= last.size if ends else 0
    for turn in _filling(turns, huge, room):
        writer.turn(turn)
        room -= turn.size
    while len(writer.messages) + len(writer.late) + (last.size if ends else 0) < count:
        writer.add("user" if len(writer.messages) % 2 else "assistant", (TextBlock(text="go on"),))
    if ends:
        writer.turn(last, answered=answered)
    writer.flush()
    if len(writer.messages) < least:
        writer.add("user", (TextBlock(text="and now?"),))
    return writer.messages


def _filling(turns: Sequence[Turn], huge: tuple[int, Turn] | None, room: int) -> Iterator[Turn]:
    """Yield turns in a circle, with one of long texts among them, while there is room."""
    for place, turn in enumerate(cycle(turns)):
        chosen = huge[1] if huge is not None and huge[0] == place else turn
        if chosen.size > room:
            return
        room -= chosen.size
        yield chosen


class _Writer:
    """Gives messages and calls their ids, and holds back results that come late."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.late: list[ToolResultBlock] = []
        self._calls = 0

    def add(self, role: Role, content: tuple[ContentBlock, ...], name: str | None = None) -> None:
        number = len(self.messages)
        time = NOW + timedelta(seconds=number)
        self.messages.append(Message(message_id=f"m{number}", role=role, name=name, content=content, created_at=time))

    def flush(self) -> None:
        for result in self.late:
            self.add("tool", (result,))
        self.late.clear()

    def turn(self, turn: Turn, answered: int | None = None) -> None:
        """Write a turn. With `answered` it has not ended: so many results of its last calls are there."""
        self.add("user", turn.asked, turn.name)
        self.flush()
        for step in turn.steps:
            results = self._step(step)
            if answered is not None and step is turn.steps[-1]:
                self._results(results[:answered], together=step.together)
                return
            self._results(results[step.late :], together=step.together)
            self.late += results[: step.late]
        if answered is None:
            self.add("assistant", (TextBlock(text=turn.answer),))

    def _step(self, step: Step) -> list[ToolResultBlock]:
        calls, results = list[ContentBlock](), list[ToolResultBlock]()
        for (name, arguments), output in zip(step.calls, step.outputs, strict=True):
            call_id = f"c{self._calls}"
            self._calls += 1
            calls.append(ToolCallBlock(call_id=call_id, name=name, arguments=arguments))
            results.append(ToolResultBlock(call_id=call_id, name=name, output=output))
        self.add("assistant", (*step.said, *calls))
        return results

    def _results(self, results: Sequence[ToolResultBlock], *, together: bool) -> None:
        if together and results:
            self.add("tool", tuple(results))
        elif not together:
            for result in results:
                self.add("tool", (result,))
