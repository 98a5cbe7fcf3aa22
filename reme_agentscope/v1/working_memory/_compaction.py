"""A talk that is over its budget: long tool results are shortened, the oldest messages make way for a summary."""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentscope.message import Msg
from agentscope.model import ChatModelBase
from agentscope.token import TokenCounterBase

import reme_agentscope
import reme_core
from reme_agentscope._shared.recorded_text import is_injection
from reme_agentscope.v1.messages import from_agentscope
from reme_agentscope.v1.working_memory._fitting import (
    Counted,
    estimate,
    estimate_message,
    media_tokens,
    places_to_keep,
    readable,
    result_text,
    results_of,
    shortened,
    with_result_texts,
)
from reme_agentscope.v1.working_memory._memory_file import MEMORY_SPACE, MessageFile, file_of
from reme_agentscope.v1.working_memory._memory_state import HINT, Entry, bears
from reme_core import Message
from reme_core.errors import InvalidInputError, ReMeError

if TYPE_CHECKING:
    from reme_core import LocalStore, ReMe, SummaryResult
    from reme_core.ports import SummaryRequest
    from reme_core.schema import Scope

_LOG = logging.getLogger("reme_agentscope")

# Of the budget, for the system prompt and the schemas of the tools, which a memory does not see.
_SYSTEM_SHARE, _MOST_SYSTEM = 10, 4_000
# Of the budget, for the summary; a shorter one than the least no model can write.
_SUMMARY_SHARE, _LEAST_SUMMARY, _MOST_SUMMARY = 5, 120, 4_000
# Of the budget, for one tool result; all of those that stay take half of it at most.
_RESULT_SHARE, _LEAST_RESULT_TOKENS = 4, 25
# The window of a model that summarises: it reads what leaves in pieces of this size.
_LEAST_WINDOW = 32_000
# Of a message that the core doesn't take as it is; what lies behind is in the memory, and in no summary.
_MOST_CHARS = 100_000
_UNKEPT = re.compile("[\0\ud800-\udfff]")
_SESSION = re.compile(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]{0,510}[^\s\x00-\x1f\x7f])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How long a prompt may get.

    Attributes:
        max_tokens: All of it: system prompt, tools, summary and messages.
        keep_recent: So many of the newest messages stay, if there is room.
    """

    max_tokens: int
    keep_recent: int

    def __post_init__(self) -> None:
        """Check the numbers (InvalidInputError)."""
        for name, value, least in (("max_tokens", self.max_tokens, 1), ("keep_recent", self.keep_recent, 0)):
            if type(value) is not int or value < least:
                msg = f"{name}: wanted a whole number of at least {least}, found {value!r:.60}"
                raise InvalidInputError(msg)

    @property
    def for_messages(self) -> int:
        """Tokens of summary and messages."""
        return self.max_tokens - min(_MOST_SYSTEM, self.max_tokens // _SYSTEM_SHARE)

    @property
    def summary(self) -> int:
        """Tokens of a summary."""
        return max(_LEAST_SUMMARY, min(_MOST_SUMMARY, self.max_tokens // _SUMMARY_SHARE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is to leave a talk: the messages, as they are stored, and the summary that covers them."""

    msgs: tuple[Msg, ...]
    summary: str


@dataclass(frozen=True, slots=True)
class _Cut:
    text: str
    limit_chars: int
    reference: str


class Tokens:
    """Counts messages once each."""

    def __init__(self, counter: TokenCounterBase | None) -> None:
        """Keep the counter; None: tokens are estimated from characters."""
        self._counter = counter
        self._known: dict[str, tuple[int, int]] = {}

    def forget_others(self, message_ids: set[str]) -> None:
        """Forget the counts of all other messages."""
        self._known = {name: known for name, known in self._known.items() if name in message_ids}

    async def of(self, msg: Msg) -> int:
        """Return the tokens of a message."""
        text = readable(msg)
        key = hash((text, len(msg.content)))
        known = self._known.get(msg.id)
        if known is not None and known[0] == key:
            return known[1]
        tokens = estimate_message(msg)
        if self._counter is not None:
            tokens = await self._ask(self._counter, msg.role, text) + media_tokens(msg)
        self._known[msg.id] = (key, tokens)
        return tokens

    async def of_text(self, text: str) -> int:
        """Return the tokens of a text."""
        if not text:
            return 0
        return estimate(text) if self._counter is None else await self._ask(self._counter, "user", text)

    async def _ask(self, counter: TokenCounterBase, role: str, text: str) -> int:
        """Ask the counter; where it fails, the estimate counts: a prompt is not to fail by a count."""
        try:
            tokens = await counter.count([{"role": role, "content": _kept(text)}])
        except Exception as exc:  # noqa: BLE001  # somebody else's code, and tokenizers raise what they like
            _LOG.warning("%s failed, tokens are estimated: %s", type(counter).__name__, type(exc).__name__)
            return estimate(text)
        return tokens if type(tokens) is int and tokens >= 0 else estimate(text)


class Compaction:
    """Says what is shown of a talk, and what is to leave it. It changes no message and no mark."""

    def __init__(
        self,
        budget: Budget,
        *,
        tokens: Tokens,
        model: ChatModelBase | None,
        user_id: str,
        session_id: str,
        file: MessageFile | None,
    ) -> None:
        """Keep the settings; nothing is opened.

        Args:
            budget: How long a prompt may get.
            tokens: Counts them.
            model: Writes the summaries; None: they quote.
            user_id: Whose talk it is.
            session_id: The session.
            file: Where the talk lies; None: in the process, and what is offloaded in a folder that goes with it.
        """
        self._budget = budget
        self._tokens = tokens
        self._area = _Area(model, file, user_id=user_id, session_id=session_id)
        self._cuts: dict[tuple[str, int], _Cut] = {}

    def shown(self, entries: Sequence[Entry]) -> list[Msg]:
        """Return the messages as they are to be sent: the same objects, but where a tool result is shortened."""
        return [self._view(msg) for msg, _ in entries]

    async def count_message(self, msg: Msg) -> int:
        """Return the tokens of a message as it is shown."""
        return await self._tokens.of(self._view(msg))

    async def fit(
        self, entries: Sequence[Entry], summary: str, hand_over: Callable[[Sequence[Msg]], Awaitable[None]]
    ) -> Left | None:
        """Shorten what is too long, and return what has to leave besides; None where nothing has, or can.

        All that leaves is on disk by then. It is handed over before that: a long-term memory in the same file makes no
        memories of messages that it finds there.

        Raises:
            ReMeError: Something could not be written.
        """
        self._forget_others({msg.id for msg, _ in entries})
        if await self._is_within(entries, summary):
            return None
        await self._cut_results(entries, limit_tokens=self._budget.max_tokens // _RESULT_SHARE)
        if await self._is_within(entries, summary):
            return None
        counted = await self._counted(entries)
        used = max(await self._tokens.of_text(summary), self._budget.summary)
        kept = places_to_keep(counted, keep_recent=self._budget.keep_recent, room=self._budget.for_messages - used)
        leaving = [entry[0] for place, entry in enumerate(entries) if place not in kept]
        if leaving:
            await hand_over(leaving)
        left = await self._summarised(counted, kept, entries, summary)
        stay = [entry for place, entry in enumerate(entries) if left is None or place in kept]
        after = summary if left is None else left.summary
        if not await self._is_within(stay, after):
            results = sum(len(results_of(msg)) for msg, _ in stay)
            await self._cut_results(stay, limit_tokens=self._budget.for_messages // (2 * max(1, results)))
            if not await self._is_within(stay, after):
                _LOG.warning("the messages that have to stay are longer than max_tokens=%d", self._budget.max_tokens)
        return left

    async def reload(self, reference: str, *, query: str | None, offset: int) -> str:
        """Return what was shortened or left, from `offset` on, or its lines with words (ReMeError: no such thing)."""
        return await self._area.reload(reference, query=query, offset=offset)

    async def close(self) -> None:
        """Close what was opened here."""
        await self._area.close()

    def _forget_others(self, message_ids: set[str]) -> None:
        """Forget what is known of messages that are no longer shown."""
        self._cuts = {key: cut for key, cut in self._cuts.items() if key[0] in message_ids}
        self._tokens.forget_others(message_ids)

    async def _is_within(self, entries: Sequence[Entry], summary: str) -> bool:
        tokens = sum(item.tokens for item in await self._counted(entries))
        return tokens + await self._tokens.of_text(summary) <= self._budget.for_messages

    async def _counted(self, entries: Sequence[Entry]) -> list[Counted]:
        views = [(self._view(entry[0]), bears(entry, HINT)) for entry in entries]
        return [Counted(msg=view, tokens=await self._tokens.of(view), is_hint=is_hint) for view, is_hint in views]

    def _view(self, msg: Msg) -> Msg:
        texts = {}
        for place, block in results_of(msg).items():
            cut = self._cuts.get((msg.id, place))
            if cut is not None and cut.text == result_text(block):
                texts[place] = shortened(cut.text, cut.limit_chars, cut.reference)
        return with_result_texts(msg, texts) if texts else msg

    async def _cut_results(self, entries: Sequence[Entry], *, limit_tokens: int) -> None:
        """Shorten tool results to a number of tokens; the whole of each is on disk first."""
        limit = max(_LEAST_RESULT_TOKENS, limit_tokens)
        for msg, _ in entries:
            for place, block in results_of(msg).items():
                text = result_text(block)
                tokens = estimate(text)
                if tokens <= limit:
                    continue
                known = self._cuts.get((msg.id, place))
                chars = max(1, len(text) * limit // tokens)
                if known is None or known.text != text:
                    reference = await self._area.offload(text, name=str(block.get("name") or ""))
                elif known.limit_chars <= chars:
                    continue
                else:
                    reference = known.reference
                self._cuts[msg.id, place] = _Cut(text, chars, reference)

    async def _summarised(
        self, counted: Sequence[Counted], kept: frozenset[int], entries: Sequence[Entry], summary: str
    ) -> Left | None:
        """Have what doesn't stay summarised; None where nothing goes, or the model's answer can't be used."""
        places = [place for place in range(len(counted)) if place not in kept]
        if not places:
            return None
        msgs = tuple(entries[place][0] for place in places)
        said = [counted[place].msg for place in places if not _is_injected(counted[place].msg)]
        if not said:
            return Left(msgs=msgs, summary=summary)
        text = await self._area.compact(said, summary, self._budget)
        if text is None:
            _LOG.error(
                "the model that summarises has failed or its summary can't be used: %d messages stay as they are",
                len(places),
            )
            return None
        return Left(msgs=msgs, summary=text) if text else None


class _KeepsOnly:
    """A distiller that makes no memories: that is the long-term memory's work."""

    def __init__(self, plain: ReMe) -> None:
        self._plain = plain

    async def summarize(self, scope: Scope, request: SummaryRequest) -> SummaryResult:
        """Put the messages on disk."""
        return await self._plain.summary(
            request.messages, user_id=scope.user_id, session_id=request.session_id, end_session=request.ends_session
        )


class _Area:
    """Where texts and messages go that leave; opened with the first of them."""

    def __init__(self, model: ChatModelBase | None, file: MessageFile | None, *, user_id: str, session_id: str) -> None:
        self._model = None if model is None else reme_agentscope.as_chat_model(model)
        self._file = file
        self._user_id = user_id
        # A name that the core refuses has another one there, always the same.
        is_usable = _SESSION.fullmatch(session_id) is not None
        self._session_id = session_id if is_usable else hashlib.sha256(session_id.encode()).hexdigest()
        self._make: type[ReMe] = reme_core.ReMe  # loaded here and not with this module
        self._own: LocalStore | None = None
        self._opened: tuple[LocalStore, ReMe] | None = None

    async def offload(self, text: str, *, name: str) -> str:
        """Put a text on disk, and return the reference that loads it."""
        info = await self._memory().offload_text(
            _kept(text),
            user_id=self._user_id,
            session_id=self._session_id,
            name=_kept(name).strip()[:200] or None,
        )
        return info.reference

    async def compact(self, msgs: Sequence[Msg], summary: str, budget: Budget) -> str | None:
        """Return the new summary; None where the model has failed, or has said nothing that can be one."""
        compacted = await self._memory().compact_memory(
            [part for msg in msgs for part in _core_messages(msg)],
            user_id=self._user_id,
            session_id=self._session_id,
            previous_summary=_kept(summary),
            limits=reme_core.ContextLimits(
                max_input_length=max(_LEAST_WINDOW, budget.max_tokens),
                max_summary_tokens=budget.summary,
                accept_prose=True,
            ),
        )
        has_failed = self._model is not None and compacted.method != "model"
        return None if has_failed else compacted.compressed_summary.strip()

    async def reload(self, reference: str, *, query: str | None, offset: int) -> str:
        found = await self._memory().reload_context(
            user_id=self._user_id, reference=reference, query=query, offset=None if query else offset
        )
        return "\n".join(piece.memory for piece in found.results)

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened[1].close(finish_jobs=False)
        own, self._own = self._own, None
        if own is not None:
            await own.close()

    def _memory(self) -> ReMe:
        store = self._store()
        if self._opened is None or self._opened[0] is not store:
            folder = Path(store.database.path).parent
            memory = plain = self._make(MEMORY_SPACE, folder, llm=None, embedding=None, vector_store=store)
            if self._model is not None:
                memory = self._make(MEMORY_SPACE, folder, llm=self._model, embedding=None, vector_store=store)
                memory.set_summarizer(_KeepsOnly(plain))
            self._opened = (store, memory)
        return self._opened[1]

    def _store(self) -> LocalStore:
        if self._file is not None:
            return self._file.store
        if self._own is None:
            folder = tempfile.mkdtemp(prefix="reme-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._own = reme_core.LocalStore(file_of(Path(folder)))
        return self._own


def _core_messages(msg: Msg) -> list[Message]:
    """Return a message in the core's form; as a text, and at most so long, where the core can't take it as it is.

    It stays as it is in the memory.
    """
    try:
        return from_agentscope([msg])
    except (ReMeError, ValueError):
        text = _kept(readable(msg)).strip() or "[no text]"
        return [Message.model_validate({"role": msg.role, "name": None, "content": text[:_MOST_CHARS]})]


def _is_injected(msg: Msg) -> bool:
    return is_injection(
        name=msg.name, text=readable(msg), metadata=msg.metadata if isinstance(msg.metadata, dict) else None
    )


def _kept(text: str) -> str:
    """Write what no store or endpoint keeps as JSON writes it: nothing of it is lost."""
    return _UNKEPT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
