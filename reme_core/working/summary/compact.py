"""Compaction: messages that leave a context are summarised by a model, or quoted where there is none."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from reme_core.errors import BudgetExceededError, ContextTooLongError, ModelOutputError, ReMeError, RunError
from reme_core.ports import ChatModel, ChatRequest, ChatResult, TokenCounter
from reme_core.schema import Message, TextBlock, Usage
from reme_core.text import (
    Language,
    Prompt,
    fence,
    json_line,
    load_prompt,
    prompt_language,
    shortened,
)
from reme_core.working.summary.carried import carried
from reme_core.working.summary.extractive_summary import extract_summary, read_previous
from reme_core.working.summary.prose import (
    as_summary,
    beside,
    is_prose,
    most_beside,
    most_of,
    own_words,
    tokens_of,
    unwrapped,
    with_words,
    within,
)
from reme_core.working.summary.sections import Summary, parse_summary
from reme_core.working.summary.summary_chunks import LEAST_ROOM, Chunk, chunks
from reme_core.working.summary.summary_fit import LEAST_TOKENS, LeavingMessages, finish, without_pointers
from reme_core.working.summary.verify import Given, check_summary, drop_invented, drop_off_topic, given_from

# A tag of the fences in our prompts, and what it is shown as.
_NAMED_TAG = r"(?=\s*/?\s*(?:request|summary|conversation|answer|problem)\b)"
_TAG = re.compile(rf"<{_NAMED_TAG}", re.IGNORECASE)
_SHOWN_TAG = re.compile(rf"\\u003c{_NAMED_TAG}", re.IGNORECASE)
# What a model thinks before it answers; the first tag may stand at the end of its prompt.
_THOUGHTS = re.compile(r"\s*(?:<think(?:ing)?>|(?![\s#*`<])).*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_LOG = logging.getLogger("reme")

_PACKAGE = "reme_core.working.summary"
# Counts are estimates, and chat formats add some tokens: this share of the window stays free.
_MARGIN = 0.05
# An answer takes what a summary may take; models that write more are told so.
_ANSWER_SHARE = 1.25
# What the model is asked for, of what it may take: pointers and names come on top.
_ASKED_SHARE = 0.8
# Tokens and characters of an answer that can't be used, and of what is wrong with it, that the model is shown.
_SHOWN_TOKENS, _SHOWN_CHARS, _PROBLEM_CHARS = 400, 2_000, 300
# The language of the prompt is that of the newest messages; a tool's output has its own.
_LANGUAGE_MESSAGES, _LANGUAGE_CHARS = 50, 2_000
# A summary shorter than this has no room for what a model would write beside headings and pointers.
_LEAST_WRITTEN = 2 * LEAST_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactRequest:
    """What leaves a context, and what is known of it.

    Attributes:
        messages: What leaves, as it stands in the context, in order.
        previous_summary: The summary so far.
        kept: What stays: its identifiers stay findable.
        reference: Of the offload that points at `messages`.
        references: References that may be cited besides: those of cut tool results and in the summary so far.
        earlier: Of the offload that holds the summary so far.
        limit_tokens: What the summary may take; see `LEAST_TOKENS`.
        window_tokens: The model's window.
        language: Of the prompt; None follows the conversation.
        max_calls: Calls of the model, second attempts included.
        accept_prose: See `ContextLimits`.
    """

    messages: Sequence[Message]
    previous_summary: str = ""
    kept: Sequence[Message] = ()
    reference: str | None = None
    references: frozenset[str] = frozenset()
    earlier: str | None = None
    limit_tokens: int
    window_tokens: int
    language: Language | None = None
    max_calls: int = 32
    accept_prose: bool = False


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

    The model reads all of it, in chunks that fit its window, and its answers are checked; one that can't be used is
    asked for once more. If that fails, or the model does, nothing that it wrote is used: the summary then quotes what
    was said; but with `accept_prose`, a text in the model's own words stands beside the quotations, unless it reads
    like a failure. Either way it has six sections, holds what the summary before says as far as there is room, and ends
    with references of what left. Nothing is written anywhere. What takes long with long texts runs in a thread,
    `counter` included.

    Raises nothing of the model's: `failures` says why it wasn't used. Cancelling passes through.
    """
    leaving = LeavingMessages(
        messages=request.messages,
        previous=request.previous_summary,
        kept=request.kept,
        reference=request.reference,
        earlier=request.earlier,
        references=request.references,
    )
    run = _CompactionRun(request=request, citable=leaving.citable, counter=counter)
    summary, failures, told = None, tuple[ReMeError, ...](), list[tuple[str, ...]]()
    if model is not None and request.messages:
        try:
            summary = await run.summarise(model)
        except ReMeError as exc:
            failures = (exc,)
        else:
            failures, told = run.failures, run.told_beside(summary)
    text = await asyncio.to_thread(_quoted_beside, told, leaving, request, counter) if told else None
    if text is None:
        summary = None if told else summary
        text = await asyncio.to_thread(_finished, summary, leaving, request.limit_tokens, counter)
    return Compacted(
        summary=text,
        method="extract" if summary is None else "model",
        usage=run.usage,
        failures=failures,
        prompts=tuple(dict.fromkeys(run.prompts)),
    )


def _finished(summary: Summary | None, leaving: LeavingMessages, limit_tokens: int, counter: TokenCounter) -> str:
    if summary is None:
        summary = extract_summary(leaving.messages, leaving.previous, limit_tokens=limit_tokens, counter=counter)
    return finish(summary, leaving, limit_tokens=limit_tokens, counter=counter)


def _quoted_beside(
    told: Sequence[Sequence[str]], leaving: LeavingMessages, request: CompactRequest, counter: TokenCounter
) -> str | None:
    """Return quotations, with what the model told beside them; None if there is no room for both."""
    lines = most_beside(told, request.limit_tokens, counter)
    quoted = _finished(None, leaving, request.limit_tokens - tokens_of(lines, counter), counter)
    return beside(quoted, lines, request.limit_tokens, counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RejectedSummary:
    """What is wrong with an answer; what it says in words of its own; whether asking again is of no use."""

    problem: str
    words: tuple[str, ...] = ()
    is_final: bool = False


@dataclass(slots=True, kw_only=True)
class _CompactionRun:
    """One compaction by a model, and what it has cost so far."""

    request: CompactRequest
    citable: frozenset[str]
    counter: TokenCounter
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    prompts: list[str] = field(default_factory=list)
    told: list[tuple[str, ...]] = field(default_factory=list)  # in the model's own words, which couldn't be checked
    failures: tuple[ReMeError, ...] = ()
    language: Language = field(init=False)

    def __post_init__(self) -> None:
        self.language = self.request.language or _language(self.request.messages)

    async def summarise(self, model: ChatModel) -> Summary:
        """Have the model work chunk after chunk into the summary (ReMeError, if it can't or doesn't)."""
        summary, parts = await asyncio.to_thread(self._parts)
        for number, chunk in enumerate(parts, 1):
            left = len(parts) - number
            summary = await self._step(
                model, summary, chunk, _ChunkPosition(number=number, parts=len(parts), left=left)
            )
        return summary

    def told_beside(self, summary: Summary) -> list[tuple[str, ...]]:
        """Return what is to stand beside quotations: what couldn't be checked, and what was written after it."""
        if not self.told:
            return []
        known = {
            *read_previous(self.request.previous_summary).all_lines,
            *(line for part in self.told for line in part),
        }
        return [*self.told, tuple(line for line in summary.all_lines if line not in known)]

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
        limit = self.request.limit_tokens
        window = int(self.request.window_tokens * (1 - _MARGIN))
        place = _ChunkPosition(number=1000, parts=1000, left=0)
        again = self._again("", "")
        frame = self.counter.count(self._system()) + self.counter.count(self._user(Summary(), "", place) + again)
        shown = min(_SHOWN_TOKENS, limit // 2) + _PROBLEM_CHARS // 2
        return window - frame - limit - shown - int(limit * _ANSWER_SHARE)

    async def _step(self, model: ChatModel, before: Summary, chunk: Chunk, place: _ChunkPosition) -> Summary:
        user = self._user(before, chunk.text, place)
        given = await asyncio.to_thread(given_from, before, chunk.texts, self.counter, prompt=self._system())
        problem, answer, words = "", "", tuple[str, ...]()
        for is_second in (False, True):
            if is_second and self.calls + place.left >= self.request.max_calls:
                break
            again = self._again(problem, answer) if is_second else ""
            self.prompts += [self._prompt(name).label for name in ("compact", "compact_again")[: 1 + is_second]]
            words = ()
            problem, answer = await self._ask(model, user + again)
            if not problem:
                read = await asyncio.to_thread(self._read_any, answer, given, chunk.asked)
                if isinstance(read, Summary):
                    return read
                problem, words = read.problem, read.words
                if read.is_final:
                    break
        msg = f"the model's summary can't be used (part {place.number} of {place.parts}): {problem}"
        failure = ModelOutputError(msg, raw=answer)
        if not words:
            raise failure
        self.told.append(words)
        self.failures += (failure,)
        return await asyncio.to_thread(within, with_words(before, words), self.request.limit_tokens, self.counter)

    def _read_any(self, answer: str, given: Given, asked: Sequence[str]) -> Summary | _RejectedSummary:
        """Return the summary that an answer is, if need be one in words of its own."""
        if not self.request.accept_prose:
            read = self._read(answer, given, asked)
            return read if isinstance(read, Summary) else _RejectedSummary(problem=read)
        limit, text = self.request.limit_tokens, unwrapped(answer)
        read = self._read(as_summary(text), given, asked)
        words = own_words(text)
        follows_none = bool(words) and is_prose(text)
        if isinstance(read, Summary) and not (self.told and follows_none):
            return read
        problem = read if isinstance(read, str) else "it has no form, as the one before it"
        # Asked again, a model that follows no form would say the same.
        is_final = follows_none and self.counter.count(text) <= limit
        return _RejectedSummary(problem=problem, words=most_of(words, limit, self.counter), is_final=is_final)

    def _read(self, answer: str, given: Given, asked: Sequence[str]) -> Summary | str:
        """Return the summary that an answer is, or what is wrong with it."""
        limit = self.request.limit_tokens
        problem = check_summary(answer, given, limit_tokens=limit, counter=self.counter)
        if problem is not None:
            return problem
        summary = drop_off_topic(without_pointers(parse_summary(answer)), given)
        summary = drop_invented(summary, given, self.citable)
        if summary.is_empty:
            return "nothing in it stands in what was given"
        return carried(given.before, summary, asked, limit_tokens=int(limit * _ASKED_SHARE), counter=self.counter)

    async def _ask(self, model: ChatModel, user: str) -> tuple[str, str]:
        """Return what is wrong with an answer, by its form, and the answer (ReMeError, if the model fails)."""
        self.calls += 1
        try:
            result = await _chat(model, ChatRequest(messages=(_said("system", self._system()), _said("user", user))))
        except ModelOutputError as exc:
            self.usage += Usage(model_calls=1)  # its tokens are not known
            return exc.message, exc.raw
        self.usage += result.usage
        text = result.message.text
        thoughts = _THOUGHTS.match(text)
        answer = _SHOWN_TAG.sub("<", text[thoughts.end() :] if thoughts else text)
        if result.finish_reason == "length":
            return "it was cut off at the limit of tokens: write less", answer
        if result.finish_reason == "content_filter":
            return "it was cut off by a content filter", answer
        return "", answer

    def _system(self) -> str:
        limit = int(self.request.limit_tokens * _ASKED_SHARE)
        return self._prompt("compact").fill({"limit": str(limit)})

    def _user(self, before: Summary, chunk: str, place: _ChunkPosition) -> str:
        asked = {"part": place.number, "parts": place.parts, "reference": self.request.reference}
        # Only JSON lines are safe from the tags of all fences; a summary isn't one.
        shown = "none so far" if before.is_empty else _TAG.sub("\\\\u003c", before.text)
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
