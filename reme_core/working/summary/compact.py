"""Compaction: messages that leave a context are summarised by a model, or quoted where there is none."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from reme_core.errors import BudgetExceededError, ContextTooLongError, ModelOutputError, ReMeError, RunError
from reme_core.ports import ChatModel, ChatRequest, ChatResult, TokenCounter
from reme_core.schema import Message, TextBlock, Usage
from reme_core.text import Language, Prompt, fence, json_line, load_prompt, prompt_language, shortened
from reme_core.working.summary.extractive_summary import extract_summary, read_previous
from reme_core.working.summary.sections import Summary
from reme_core.working.summary.summary_answer import (
    SUMMARY_SCHEMA,
    Given,
    ReadAnswer,
    given_from,
    numbered_lines,
    read_answer,
)
from reme_core.working.summary.summary_chunks import LEAST_ROOM, Chunk, chunks
from reme_core.working.summary.summary_fit import LEAST_TOKENS, MOST_LINE_CHARS, CompactRequest, finish, most_of

_LOG = logging.getLogger("reme")

_PACKAGE = "reme_core.working.summary"
# Counts are estimates, and chat formats add some tokens: this share of the window stays free.
_MARGIN = 0.05
# The summary so far is shown with the numbers of its lines; of an answer that is longer than a summary nothing is used.
_NUMBERED_SHARE, _ANSWER_SHARE = 1.2, 1.0
# What the model is asked for, of what it may take: pointers and names come on top.
_ASKED_SHARE = 0.8
# Tokens and characters of an answer that can't be used, and of what is wrong with it, that the model is shown.
_SHOWN_TOKENS, _SHOWN_CHARS, _PROBLEM_CHARS = 400, 2_000, 300
# The language of the prompt is that of the newest messages; a tool's output has its own.
_LANGUAGE_MESSAGES, _LANGUAGE_CHARS = 50, 2_000
# A summary shorter than this has no room for what a model would write beside headings and pointers.
_LEAST_WRITTEN = 2 * LEAST_TOKENS
# Who writes can't count tokens: limits are told in characters, as many for a token as these messages have.
_SAMPLE_CHARS, _LEAST_CHARS_PER_TOKEN, _MOST_CHARS_PER_TOKEN = 20_000, 1.0, 5.0
# Of what a model is asked for, so much is offered to it: one that writes somewhat more loses no line by it.
_OFFERED_SHARE = 0.8
# An endpoint without JSON schemas is told the schema in words.
_SCHEMA_WORDS_TOKENS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A summary and what it cost.

    Attributes:
        summary: The new summary, to stand in place of the one before; at most `limit_tokens` long.
        method: Who wrote it: the model, if in part, or nobody (quotations).
        usage: Of the model, whether its answers were used or not.
        failures: Why the model's answers weren't used.
        prompts: The prompts that were sent, each once.
    """

    summary: str
    method: Literal["model", "extract"]
    usage: Usage = field(default_factory=Usage)
    failures: tuple[ReMeError, ...] = ()
    prompts: tuple[str, ...] = ()


async def compact_memory(request: CompactRequest, *, model: ChatModel | None, counter: TokenCounter) -> Compacted:
    """Summarise what leaves a context, together with the summary so far.

    The model reads all of it, in chunks that fit its window, and says what is new and which lines of the summary so far
    are gone; the others stay as they are. Its answers are checked; one that can't be used is asked for once more. If
    that fails, or the model does, nothing that it wrote is used: the summary then quotes what was said. Either way it
    has six sections, holds what the summary before says as far as there is room, and ends with references of what left.
    Nothing is written anywhere. What takes long with long texts runs in a thread, `counter` included.

    Raises nothing of the model's: `failures` says why it wasn't used. Cancelling passes through.
    """
    run = _CompactionRun(request=request, counter=counter)
    summary, failures = None, tuple[ReMeError, ...]()
    if model is not None and request.messages:
        try:
            summary = await run.summarise(model)
        except ReMeError as exc:
            failures = (exc,)
    text = await asyncio.to_thread(_finished, summary, request, counter)
    return Compacted(
        summary=text,
        method="extract" if summary is None else "model",
        usage=run.usage,
        failures=failures,
        prompts=tuple(dict.fromkeys(run.prompts)),
    )


def _finished(summary: Summary | None, request: CompactRequest, counter: TokenCounter) -> str:
    if summary is None:
        limit = request.limit_tokens
        summary = extract_summary(request.messages, request.previous_summary, limit_tokens=limit, counter=counter)
    return finish(summary, request, counter=counter)


@dataclass(slots=True, kw_only=True)
class _CompactionRun:
    """One compaction by a model, and what it has cost so far."""

    request: CompactRequest
    counter: TokenCounter
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    prompts: list[str] = field(default_factory=list)
    language: Language = field(init=False)
    most_chars: int = field(init=False)

    def __post_init__(self) -> None:
        messages = self.request.messages
        self.language = self.request.language or _language(messages)
        sample = "\n".join(message.full_text[:_LANGUAGE_CHARS] for message in messages[-_LANGUAGE_MESSAGES:])
        sample = sample[:_SAMPLE_CHARS]
        ratio = len(sample) / max(1, self.counter.count(sample))
        self.most_chars = int(self.asked_tokens * min(max(ratio, _LEAST_CHARS_PER_TOKEN), _MOST_CHARS_PER_TOKEN))

    @property
    def asked_tokens(self) -> int:
        """Tokens of the summary that the model is asked for."""
        return int(self.request.limit_tokens * _ASKED_SHARE)

    async def summarise(self, model: ChatModel) -> Summary:
        """Have the model work chunk after chunk into the summary (ReMeError, if it can't or doesn't)."""
        summary, parts = await asyncio.to_thread(self._parts)
        for number, chunk in enumerate(parts, 1):
            left = len(parts) - number
            summary = await self._step(
                model, summary, chunk, _ChunkPosition(number=number, parts=len(parts), left=left)
            )
        return summary

    def _parts(self) -> tuple[Summary, list[Chunk]]:
        """Return the summary so far and the chunks; one that is longer than a summary may be is read in chunks too."""
        request = self.request
        if request.limit_tokens < _LEAST_WRITTEN:
            msg = (
                f"a summary of at most {request.limit_tokens} tokens is too short for a model, which needs "
                f"{_LEAST_WRITTEN}: a shorter system prompt or a longer window would leave room for it"
            )
            raise ContextTooLongError(msg)
        room = self._room()
        if room < LEAST_ROOM:
            msg = (
                f"a window of {request.window_tokens} tokens leaves {max(0, room)} for messages beside the prompt "
                f"and a summary of {request.limit_tokens}: a model with a longer window could summarise them"
            )
            raise ContextTooLongError(msg)
        before = read_previous(request.previous_summary)
        is_long = self.counter.count(before.text) > request.limit_tokens
        earlier = "\n".join(before.all_lines) if is_long else ""
        parts = chunks(request.messages, earlier, room, self.counter)
        if len(parts) > request.max_calls:
            msg = f"{len(parts)} calls are needed to read all messages, at most {request.max_calls} are allowed"
            raise BudgetExceededError(msg)
        return (Summary() if is_long else before), parts

    def _room(self) -> int:
        """Return the tokens of a chunk, so that even a second attempt fits the window together with its answer."""
        limit, count = self.request.limit_tokens, self.counter.count
        window = int(self.request.window_tokens * (1 - _MARGIN))
        place = _ChunkPosition(number=1000, parts=1000, left=0)
        again = self._again("", "")
        frame = count(self._system()) + count(self._user(Summary(), "", place) + again)
        frame += count(json.dumps(SUMMARY_SCHEMA.schema)) + _SCHEMA_WORDS_TOKENS
        so_far = int(limit * _NUMBERED_SHARE)
        shown = min(_SHOWN_TOKENS, limit // 2) + _PROBLEM_CHARS // 2
        return window - frame - so_far - shown - int(limit * _ANSWER_SHARE)

    async def _step(self, model: ChatModel, before: Summary, chunk: Chunk, place: _ChunkPosition) -> Summary:
        user = self._user(before, chunk.text, place)
        given = await asyncio.to_thread(given_from, before, chunk.texts, self.counter, citable=self.request.citable)
        answer, read = "", ReadAnswer()
        for is_second in (False, True):
            if is_second and self.calls + place.left >= self.request.max_calls:
                break
            again = self._again(read.problem, answer) if is_second else ""
            self.prompts += [self._prompt(name).label for name in ("compact", "compact_again")[: 1 + is_second]]
            answer, new = await self._ask(model, user + again, given)
            read = new if new.summary is not None or read.summary is None else read
            if not read.problem:
                break
        if read.summary is None:
            msg = f"the model's summary can't be used (part {place.number} of {place.parts}): {read.problem}"
            raise ModelOutputError(msg, raw=answer)
        return await asyncio.to_thread(most_of, read.summary, self.asked_tokens, self.counter)

    async def _ask(self, model: ChatModel, user: str, given: Given) -> tuple[str, ReadAnswer]:
        """Return an answer and what becomes of it (ReMeError, if the model fails)."""
        self.calls += 1
        value: JsonValue = None
        try:
            result = await _chat(
                model,
                ChatRequest(
                    messages=(_said("system", self._system()), _said("user", user)), response_schema=SUMMARY_SCHEMA
                ),
            )
        except ModelOutputError as exc:  # no JSON
            self.usage += Usage(model_calls=1)  # its tokens are not known
            text = exc.raw
        else:
            self.usage += result.usage
            text, value = result.message.text, result.parsed
            if result.finish_reason == "length":
                return text, ReadAnswer(problem="it was cut off at the limit of tokens: write less")
            if result.finish_reason == "content_filter":
                return text, ReadAnswer(problem="it was cut off by a content filter")
        limit = self.request.limit_tokens
        return text, await asyncio.to_thread(
            read_answer, value, text, given, limit_tokens=limit, asked_tokens=self.asked_tokens, counter=self.counter
        )

    def _system(self) -> str:
        return self._prompt("compact").fill({"line": str(MOST_LINE_CHARS)})

    def _user(self, before: Summary, chunk: str, place: _ChunkPosition) -> str:
        asked: dict[str, JsonValue] = {
            "part": place.number,
            "parts": place.parts,
            "reference": self.request.reference,
            "free_chars": int(self.most_chars * _OFFERED_SHARE) - sum(map(len, before.all_lines)),
        }
        shown = numbered_lines(before) or "none so far"
        return "\n".join([fence("request", json_line(asked)), fence("summary", shown), fence("conversation", chunk)])

    def _again(self, problem: str, answer: str) -> str:
        most = min(_SHOWN_TOKENS, self.request.limit_tokens // 2)
        shown = answer
        size = min(len(answer), _SHOWN_CHARS)
        while size > 0 and self.counter.count(shown := json_line({"answer": shortened(answer, size)})) > most:
            size //= 2
        told = json_line({"problem": shortened(problem, _PROBLEM_CHARS)})
        values = {"answer": fence("answer", shown if size else "none"), "problem": fence("problem", told)}
        return "\n" + self._prompt("compact_again").fill(values)

    def _prompt(self, name: str) -> Prompt:
        return load_prompt(_PACKAGE, name, self.language)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChunkPosition:
    """Which chunk of how many, and how many are left after it."""

    number: int
    parts: int
    left: int


async def _chat(model: ChatModel, request: ChatRequest) -> ChatResult:
    try:
        return await model.chat(request)
    except ReMeError:
        raise
    except Exception as exc:  # the outer edge of a model of somebody else's, which may raise anything
        _LOG.exception("the model that summarises failed by an error that is none of reme's")
        msg = f"{type(exc).__name__}: {exc}"
        raise RunError(msg) from exc


def _language(messages: Sequence[Message]) -> Language:
    talk = [message for message in messages if message.role in {"user", "assistant"}] or list(messages)
    return prompt_language(message.full_text[:_LANGUAGE_CHARS] for message in talk[-_LANGUAGE_MESSAGES:])


def _said(role: Literal["system", "user"], text: str) -> Message:
    return Message(role=role, content=(TextBlock(text=text),))
