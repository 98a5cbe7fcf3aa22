"""Answers from what each system found, and a judge's marks on them: the measure of whether memories are worth having.

A reader answers each question from one system's notes; a judge sees question, gold answer and answer, no system's name,
in an order of chance. Both are kept as they come, so that another run asks for what is missing alone. The same prompt
is asked once, whichever systems it comes from. What an endpoint fails to answer is told, and is no wrong answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from reme_bench.results import AnswerFailure, Answering, Marks, Prompts, Results, Row
from reme_bench.summary import summarised
from reme_core import ReMe
from reme_core.errors import (
    ConfigurationError,
    ConflictError,
    ModelError,
    ModelOutputError,
    ModelRejectedError,
    ModelUnavailableError,
    PartialFailureError,
)
from reme_core.ports import ChatModel, ChatRequest, ResponseSchema
from reme_core.schema import Message, Usage
from reme_core.steps.ask_json import JsonQuestion, MeteredChatModel, ask, object_schema
from reme_core.text import Prompt, fence, load_prompt

_AT_ONCE = 8
# An endpoint that fails so often in a row is down, or refuses us: the rest waits for another run.
_GIVE_UP_AFTER = 5
_SEED = 7
_MARKS = ResponseSchema(
    name="marks",
    schema=object_schema({"reason": {"type": "string"}, "strict": {"type": "boolean"}, "lenient": {"type": "boolean"}}),
)


class NamedModel(NamedTuple):
    """A chat model, and the name that it goes by in the results."""

    name: str
    chat: ChatModel


def endpoint_model(name: str, base_url: str | None = None) -> NamedModel:
    """Return a model of an OpenAI-compatible endpoint; address and key are those of the environment, as for `reme`.

    Raises:
        ConfigurationError: There is neither a key nor an address.
    """
    where = {} if base_url is None else {"base_url": base_url}
    chat = ReMe("answers", llm={"backend": "openai", "model": name, "temperature": 0, **where}, embedding=None).llm
    assert chat is not None  # noqa: S101  # it was given
    return NamedModel(name, chat)


class KeptAnswer(BaseModel):
    """A line of the book: an answer or a mark, under the digest of what was asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    answer: str | None = None
    marks: Marks | None = None
    reason: str | None = None
    usage: Usage = Usage()


class AnswerBook:
    """Answers and marks in a file of JSON lines, each on disk before the next is asked for.

    One run at a time asks for what is missing; see `held`.
    """

    def __init__(self, path: Path) -> None:
        """Read what is there; the file is made with the first answer.

        Raises:
            ConfigurationError: It is no such file.
        """
        self._path = path
        self._whole = 0
        self._kept: dict[str, KeptAnswer] = {}
        if path.exists():
            with path.open("rb") as file:
                self._take_over(file)

    @classmethod
    def beside(cls, results: Path) -> Self:
        """Open the book that belongs to a file of results (ConfigurationError)."""
        return cls(results.with_suffix(".answers.jsonl"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs away from the file, which would pay for the same answers (ConflictError: one is at it)."""
        with self._path.open("a+b") as file:
            try:
                _lock(file.fileno())
            except BlockingIOError as exc:
                msg = f"another run keeps its answers in {str(self._path)!r} just now: wait for it, then run this again"
                raise ConflictError(msg) from exc
            self._take_over(file)
            yield

    def find(self, key: str) -> KeptAnswer | None:
        """Return what is kept under a key."""
        return self._kept.get(key)

    def add(self, kept: KeptAnswer) -> None:
        """Keep one more, durably."""
        line = kept.model_dump_json().encode() + b"\n"
        with self._path.open("a+b") as file:
            self._take_over(file)
            file.truncate(self._whole)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self._whole += len(line)
        self._kept[kept.key] = kept

    def _take_over(self, file: BinaryIO) -> None:
        """Read the lines that are new. One that broke off with its process is cut away by the next that is written."""
        if file.seek(0, os.SEEK_END) < self._whole:  # it was removed or emptied meanwhile
            self._whole = 0
        file.seek(self._whole)
        data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        try:
            self._kept |= {kept.key: kept for kept in map(KeptAnswer.model_validate_json, whole.splitlines())}
        except ValidationError as exc:
            msg = f"{self._path} is no file of kept answers: name another one, or remove it"
            raise ConfigurationError(msg) from exc
        self._whole += len(whole)


def _lock(descriptor: int) -> None:
    """Lock an open file until it is closed (BlockingIOError: another process has it); Windows knows no such lock."""
    if sys.platform != "win32":
        import fcntl  # noqa: PLC0415  # there is none on Windows

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class _Meter:
    usage = Usage()


@dataclass(frozen=True, slots=True)
class Stage:
    """The reader's or the judge's part.

    Attributes:
        name: Which of both.
        model: Whom it asks.
        prompt: The system message.
        question: What the model is shown of a row; None: the row has nothing to ask.
        answer: Asks, and returns the fields that are kept.
    """

    name: Literal["reader", "judge"]
    model: NamedModel
    prompt: Prompt
    question: Callable[[Row], str | None]
    answer: Callable[[ChatModel, Prompt, str], Awaitable[Mapping[str, JsonValue]]]

    def key(self, user: str) -> str:
        """Return the digest of all that the model is shown."""
        shown = [self.name, self.model.name, self.prompt.text, user]
        return hashlib.sha256(json.dumps(shown).encode()).hexdigest()

    async def ask(self, user: str) -> KeptAnswer:
        """Ask (ModelError)."""
        meter = _Meter()
        fields = await self.answer(MeteredChatModel(self.model.chat, meter), self.prompt, user)
        return KeptAnswer.model_validate({"key": self.key(user), "usage": meter.usage, **fields})


def reader_stage(model: NamedModel) -> Stage:
    """Return the reader's part: each row that has notes and a gold answer."""
    return Stage("reader", model, load_prompt("reme_bench", "reader", "en"), _reader_question, _read)


def judge_stage(model: NamedModel) -> Stage:
    """Return the judge's part: each row that has an answer; nothing tells whose it is."""
    return Stage("judge", model, load_prompt("reme_bench", "judge", "en"), _judge_question, _judge)


async def answer_questions(
    results: Results, reader: NamedModel, judge: NamedModel | None, book: AnswerBook, *, budget: int
) -> Results:
    """Return results with an answer, and marks, for every row that has notes and a gold answer; see `ask_stages`."""
    stages = [reader_stage(reader)] + ([] if judge is None else [judge_stage(judge)])
    return await ask_stages(results, stages, book, budget=budget)


async def ask_stages(results: Results, stages: Sequence[Stage], book: AnswerBook, *, budget: int) -> Results:
    """Return results with what a reader, and then maybe a judge, say of each row, and sums made anew.

    `budget` is the tokens of the notes, for the record.
    """
    blank: dict[str, object] = {"answer": None, "marks": None}
    rows = [row.model_copy(update={} if stages[0].question(row) is None else blank) for row in results.rows]
    used: dict[str, KeptAnswer] = {}
    lost: list[AnswerFailure] = []
    with book.held():
        for stage in stages:
            keys = {
                place: stage.key(user) for place, row in enumerate(rows) if (user := stage.question(row)) is not None
            }
            failures = await _ask_all(stage, rows, book)
            found = {place: kept for place, key in keys.items() if (kept := book.find(key)) is not None}
            used |= {kept.key: kept for kept in found.values()}
            lost += [_failure(rows[place], stage.name, failures[key]) for place, key in keys.items() if key in failures]
            rows = [_with_kept(row, found[place]) if place in found else row for place, row in enumerate(rows)]
    named = {stage.name: stage for stage in stages}
    spent = sum((kept.usage for kept in used.values()), Usage())
    answering = Answering(
        reader=named["reader"].model.name,
        judge=named["judge"].model.name if "judge" in named else None,
        budget=budget,
        model_calls=spent.model_calls,
        prompt_tokens=spent.prompt_tokens,
        completion_tokens=spent.completion_tokens,
        failures=tuple(lost),
    )
    prompts = Prompts(**{name: stage.prompt.text for name, stage in named.items()})
    return summarised(results.model_copy(update={"rows": tuple(rows), "prompts": prompts, "answering": answering}))


def check_answered(results: Results) -> None:
    """Tell what an endpoint failed to answer (PartialFailureError); the file of results is written."""
    failures = results.answering.failures if results.answering else ()
    if failures:
        first = failures[0]
        message = (
            f"{len(failures)} answers or marks are missing, first {first.error}: {first.message}; "
            "the same command asks for these alone"
        )
        raise PartialFailureError(message, done=results, failures=[ModelError(one.message) for one in failures])


async def _ask_all(stage: Stage, rows: Sequence[Row], book: AnswerBook) -> dict[str, ModelError]:
    """Ask for what is not kept yet, in an order of chance; return what failed by its key."""
    asked = [user for row in rows if (user := stage.question(row)) is not None]
    missing = {key: user for user in asked if book.find(key := stage.key(user)) is None}
    order = random.Random(_SEED).sample(sorted(missing), len(missing))  # noqa: S311  # no secret
    failures: dict[str, ModelError] = {}
    places, in_a_row = asyncio.Semaphore(_AT_ONCE), 0

    async def one(key: str) -> None:
        nonlocal in_a_row
        async with places:
            if in_a_row >= _GIVE_UP_AFTER:
                failures[key] = ModelUnavailableError(f"not asked after {in_a_row} failures in a row: run it again")
                return
            try:
                book.add(await stage.ask(missing[key]))
            except ModelError as exc:
                failures[key] = exc
                in_a_row += isinstance(exc, (ModelUnavailableError, ModelRejectedError))
            else:
                in_a_row = 0

    async with asyncio.TaskGroup() as group:
        for key in order:
            group.create_task(one(key))
    return failures


def _failure(row: Row, stage: str, error: ModelError) -> AnswerFailure:
    place = row.model_dump(include={"system", "conversation", "question_id"})
    return AnswerFailure.model_validate(
        {**place, "stage": stage, "error": type(error).__name__, "message": error.message}
    )


def _with_kept(row: Row, kept: KeptAnswer) -> Row:
    return row.model_copy(update={"answer": kept.answer} if kept.marks is None else {"marks": kept.marks})


def _reader_question(row: Row) -> str | None:
    if row.notes is None or row.gold is None:
        return None
    return _fenced({"notes": row.notes or "(nothing was found)", "question": row.question})


def _judge_question(row: Row) -> str | None:
    if row.answer is None or row.gold is None:
        return None
    return _fenced({"question": row.question, "gold": row.gold, "answer": row.answer})


def _fenced(parts: Mapping[str, str]) -> str:
    """Return parts, each in its fence; none of them holds a tag of another one."""
    tag = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(parts)})\b)", re.IGNORECASE)
    return "\n".join(fence(name, tag.sub(r"\\u003c", text)) for name, text in parts.items())


async def _read(model: ChatModel, prompt: Prompt, user: str) -> Mapping[str, JsonValue]:
    said = [{"role": "system", "content": prompt.text}, {"role": "user", "content": user}]
    result = await model.chat(ChatRequest(messages=[Message.model_validate(message) for message in said]))
    answer = result.message.text.strip()
    if not answer or result.finish_reason == "length":
        msg = "the reader's answer is empty or was cut off: allow the model more tokens, or take another one"
        raise ModelOutputError(msg, raw=answer)
    return {"answer": answer}


async def _judge(model: ChatModel, prompt: Prompt, user: str) -> Mapping[str, JsonValue]:
    question = JsonQuestion(system=prompt.text, user=user, schema=_MARKS, language="en", read=_read_marks)
    return await ask(model, question)


def _read_marks(value: JsonValue) -> Mapping[str, JsonValue]:
    marks = value if isinstance(value, dict) else {}
    strict, lenient = marks.get("strict"), marks.get("lenient")
    if not isinstance(strict, bool) or not isinstance(lenient, bool):
        msg = "strict, lenient: each has to be true or false"
        raise ValueError(msg)  # noqa: TRY004  # what a model wrote, not what a caller handed in
    return {"marks": {"strict": int(strict), "lenient": int(strict or lenient)}, "reason": str(marks.get("reason", ""))}
