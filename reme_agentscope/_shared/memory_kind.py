"""Kinds of long-term memory: the protocol by which three kinds keep and find, and the text of what was found."""

from __future__ import annotations

import logging
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from pydantic import JsonValue

from reme_agentscope._shared.recorded_text import as_texts
from reme_core.errors import ReMeError
from reme_core.schema import found_line, found_text
from reme_core.schema.plain import clean_text

if TYPE_CHECKING:
    from reme_core import Hit, Message, ReMe


LOG = logging.getLogger("reme_agentscope")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallScope:
    """Whose memory a call works on. Nothing of it comes from a model or a message.

    Attributes:
        memory: Where.
        user_id: Whose.
        session_id: The session that talk is added to.
        agent_name: The agent's name, as the user gave it.
    """

    memory: ReMe
    user_id: str
    session_id: str
    agent_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What AgentScope's class of this name says; agents and tests match on it."""

    not_found: str
    record_failed: str
    retrieve_failed: str
    tool_record_failed: str
    tool_retrieve_failed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The answer to a model that asked to keep something."""

    text: str
    result: dict[str, JsonValue] | None = None


class MemoryKind(ABC):
    """One of personal, task and tool memory.

    Attributes:
        words: The texts of answers.
        waits_for_results: Whether a message with a tool call is kept only together with the result.
    """

    words: ClassVar[Words]
    waits_for_results: ClassVar[bool]

    @abstractmethod
    async def keep(self, place: CallScope, messages: Sequence[Message], options: Mapping[str, object]) -> Sequence[str]:
        """Put talk on disk and return the ids of jobs that make more of it; done twice it changes nothing."""

    @abstractmethod
    async def search(self, place: CallScope, query: str, limit: int) -> list[Hit]:
        """Return what matches, best first."""

    @abstractmethod
    async def remember(
        self, place: CallScope, thinking: str, content: object, options: Mapping[str, object]
    ) -> Remembered:
        """Keep what a model handed in."""

    def line(self, hit: Hit) -> str:
        """Return a result as it stands in a prompt."""
        return line_of(hit)

    def text(self, hits: Sequence[Hit]) -> str:
        """Return results for a prompt, quoted as data; `""` for none."""
        return notes_of(hits)

    async def recall(self, place: CallScope, keywords: object, limit: int) -> str:
        """Return what each keyword finds, a result once, or say that there is nothing."""
        parts, seen = list[str](), set[str]()
        for keyword in dict.fromkeys(as_query(text) for text in as_texts(keywords)):
            hits = memories_first(await self.search(place, keyword, limit)) if keyword else []
            new = [hit for hit in hits if key_of(hit) not in seen]
            seen.update(map(key_of, new))
            if hits:
                lines = "\n".join(map(line_of, new))
                parts.append(f"Keyword '{keyword}':\n{lines or '(the same as above)'}")
        return "\n\n".join(parts) or self.words.not_found


async def unknown_of(place: CallScope, messages: Sequence[Message]) -> list[Message]:
    """Return those messages whose ids this user's memory does not have."""
    from reme_core.steps.message_lines import find_all  # noqa: PLC0415  # it loads the ports, which importing us does not

    stored = await find_all(
        partial(place.memory.get_messages, user_id=place.user_id), [message.message_id for message in messages]
    )
    known = {item.message.message_id: item.message.full_text for item in stored}
    changed = [one for one in messages if one.message_id in known and known[one.message_id] != one.full_text]
    if changed:
        # A client has cut its copy since, mostly: the first one stays.
        LOG.warning("%d messages are kept already, with other texts: they were not kept again", len(changed))
    return [message for message in messages if message.message_id not in known]


def log_failure(what: str, error: BaseException) -> None:
    """Log an error. Only our own messages are known to hold no words of the talk."""
    told = str(error) if isinstance(error, ReMeError) else "its text is not logged, it may quote the talk"
    LOG.error("%s: %s: %s", what, type(error).__name__, told)


def warn(told: str) -> None:
    """Warn. A filter that makes errors of warnings is to end no reply, no write and no closing."""
    with suppress(UserWarning):
        warnings.warn(told, stacklevel=4)


# Vectors put everything somewhere: from this cosine on a text counts as an answer. Unrelated texts of usual models
# (text-embedding-3, text-embedding-v4, MiniLM) lie below it; what lies below and is one all the same mostly shares a
# word with the question, which counts as well.
_COSINE_FLOOR = 0.4
# Of one result; messages may have millions of characters.
_SHOWN_CHARS = 1_000
# Questions longer than this are cut to their end: that is where people ask.
_QUERY_CHARS = 4_000

_TAG = re.compile(r"<(?=\s*/?\s*long_term_memory)", re.IGNORECASE)
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_ENDING = re.compile(r"(?:ing|ed|es|s)$")
_SMALL_WORDS = (
    "the and for are was were you your yours what when where which who whom whose why how that this these those with "
    "from have has had does did not but can could will would should may might must about into than then there here "
    "they them their she her hers his him its our ours ask tell know say said please any some all one let get got "
    "just very too also been being is it am me my of to in on at as be by do or an if so no we he us up out"
)
_STOP_WORDS = frozenset(_SMALL_WORDS.split())


def as_query(text: str) -> str:
    """Return a text as a question; `""` where nothing is asked."""
    return clean_text(text)[-_QUERY_CHARS:].strip()


def words_of(text: str) -> frozenset[str]:
    """Return the words that say something, endings off; pairs of characters where a script has no blanks."""
    words: set[str] = set()
    for token in _TOKEN.findall(text.casefold()):
        if re.match(f"[{_CJK}]", token):
            words.update(token[at : at + 2] for at in range(max(len(token) - 1, 1)))
        elif token not in _STOP_WORDS and (len(token) > 1 or token.isdigit()):
            words.add(_ENDING.sub("", token) if len(token) > 4 else token)
    return frozenset(words)


def matching(memory: ReMe, query: str, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits that answer the question, in their order.

    Without an embedding model the core finds only what words, names or dates speak for. With one it ranks everything
    there is; then a hit needs a word in common with the question, or a cosine of `_COSINE_FLOOR`, or it is a message
    of the same block as a message that has. While the model fails the word decides.
    """
    if memory.embedder is None:
        return list(hits)
    asked = words_of(query)
    fits = [(hit.similarity or 0.0) >= _COSINE_FLOOR or bool(asked & words_of(_text_of(hit))) for hit in hits]
    blocks = {hit.block_id for hit, fit in zip(hits, fits, strict=True) if fit and hit.block_id is not None}
    return [hit for hit, fit in zip(hits, fits, strict=True) if fit or hit.block_id in blocks]


def _text_of(hit: Hit) -> str:
    return f"{hit.when_to_use}\n{hit.memory}" if hit.when_to_use else hit.memory


def memories_first(hits: Iterable[Hit]) -> list[Hit]:
    """Put what was made of the talk before the talk itself; within each the order stays."""
    return sorted(hits, key=lambda hit: hit.layer != "memory")


def key_of(hit: Hit) -> str:
    """Return what a hit is known by within one answer."""
    return hit.memory_id or ",".join(hit.message_ids) or hit.memory


def line_of(hit: Hit) -> str:
    """Write a hit for a prompt, as an item of a list."""
    return harmless(found_line(hit, max_chars=_SHOWN_CHARS))


def notes_of(hits: Sequence[Hit]) -> str:
    """Write hits for a prompt, quoted as data; `""` for none."""
    return harmless(found_text(hits, max_chars=_SHOWN_CHARS))


def harmless(text: str) -> str:
    """Return a text that can't end the block in which AgentScope puts it."""
    return _TAG.sub("‹", text)
