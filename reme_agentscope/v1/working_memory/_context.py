"""A talk as the core's context, kept within a budget: conversions, and one call of the core."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import shutil
import tempfile
import weakref
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from agentscope.message import AudioBlock, ImageBlock, Msg, TextBlock, VideoBlock
from agentscope.model import ChatModelBase
from agentscope.token import TokenCounterBase

import reme_agentscope
import reme_core
from reme_agentscope._shared.recorded_text import is_injection
from reme_agentscope.v1.messages import from_agentscope, to_agentscope
from reme_agentscope.v1.working_memory._contents import fields_of
from reme_agentscope.v1.working_memory._memory_file import MEMORY_SPACE, MessageFile, place_of
from reme_agentscope.v1.working_memory._memory_state import HINT, Entry, bears
from reme_core import ContextLimits, EventLoopThread, Message, working
from reme_core.errors import InvalidInputError, ReMeError
from reme_core.schema import Scope
from reme_core.schema.plain import clean_text
from reme_core.working.late_results import tell_late_results

if TYPE_CHECKING:
    from reme_core import ReMe

_LOG = logging.getLogger("reme_agentscope")

# Of the budget, for the system prompt and the schemas of the tools, which a memory does not see.
_SYSTEM_SHARE, _MOST_SYSTEM = 10, 4_000
# Of the budget, for the summary; a shorter one than the least no model can write.
_SUMMARY_SHARE, _LEAST_SUMMARY, _MOST_SUMMARY = 5, 120, 4_000
# The window of a model that summarises: it reads what leaves in pieces of this size.
_LEAST_WINDOW = 32_000
# Of a message that the core doesn't take as it is; what lies behind is in the memory, and in no summary.
_MOST_CHARS = 100_000
_MEDIA = frozenset({"image", "audio", "video"})
ResultPart: TypeAlias = TextBlock | ImageBlock | AudioBlock | VideoBlock
_SESSION = re.compile(r"[^\s\x00-\x1f\x7f](?:[^\x00-\x1f\x7f]{0,510}[^\s\x00-\x1f\x7f])?")


def limits_of(max_tokens: int, keep_recent: int) -> ContextLimits:
    """Return the core's limits for a budget of a prompt (InvalidInputError: numbers that can't be)."""
    for name, value, least in (("max_tokens", max_tokens, 1), ("keep_recent", keep_recent, 0)):
        if type(value) is not int or value < least:
            msg = f"{name}: wanted a whole number of at least {least}, found {value!r:.60}"
            raise InvalidInputError(msg)
    return ContextLimits(
        max_input_length=max(_LEAST_WINDOW, max_tokens),
        max_tokens=max_tokens - min(_MOST_SYSTEM, max_tokens // _SYSTEM_SHARE),
        max_summary_tokens=max(_LEAST_SUMMARY, min(_MOST_SUMMARY, max_tokens // _SUMMARY_SHARE)),
        keep_messages=keep_recent,
    )


class AgentScopeCounter:
    """A counter of AgentScope, as the core asks one; where it fails, tokens are estimated."""

    def __init__(self, counter: TokenCounterBase) -> None:
        """Keep the counter."""
        self._counter = counter
        self._estimate = reme_core.CharacterTokenCounter()
        self._loop = EventLoopThread(self)

    def count(self, text: str) -> int:
        """Return the tokens of a text; blocks until the counter answers."""
        try:
            tokens = self._loop.run(self._counter.count([{"role": "user", "content": text}]))
        except Exception as exc:  # noqa: BLE001  # somebody else's code, and tokenizers raise what they like
            _LOG.warning("%s failed, tokens are estimated: %s", type(self._counter).__name__, type(exc).__name__)
            return self._estimate.count(text)
        return tokens if type(tokens) is int and tokens >= 0 else self._estimate.count(text)


@dataclass(slots=True)
class _Form:
    """A message in the core's form: as it is, and as it is shown."""

    fields: object
    whole: Message
    view: Message


class MessageForms:
    """Remembers the core's form of each message, and counts it once."""

    def __init__(self, counter: TokenCounterBase | None) -> None:
        """Count with a counter; None: tokens are estimated from characters."""
        core_counter = reme_core.CharacterTokenCounter() if counter is None else AgentScopeCounter(counter)
        self.ledger = working.TokenLedger(core_counter, beside=lambda message: self._media.get(message.message_id, 0))
        self._forms: dict[str, _Form] = {}
        self._media: dict[str, int] = {}

    def read(self, msgs: Sequence[Msg]) -> list[Message]:
        """Return messages as they are shown, in the core's form, and forget all others."""
        self._forms = {msg.id: self._form(msg) for msg in msgs}
        there = {form.whole.message_id for form in self._forms.values()}
        self._media = {name: tokens for name, tokens in self._media.items() if name in there}
        return [self._forms[msg.id].view for msg in msgs]

    def count(self, forms: Sequence[Message], summary: str) -> tuple[list[int], int]:
        """Return the tokens of each message and of a summary; blocks while a counter works."""
        return list(map(self.ledger.count_message, forms)), self.ledger.count_text(summary)

    def show(self, msg: Msg, view: Message) -> None:
        """Have a message shown like this, as long as it doesn't change."""
        self._forms[msg.id].view = view

    def shown(self, msgs: Sequence[Msg], summary: str) -> list[Msg]:
        """Return messages as they are to be sent: the same objects, but those shortened or told in words."""
        forms = [self._form(msg) for msg in msgs]
        views = tell_late_results([form.view for form in forms], summary)
        return [
            msg if view.content == form.whole.content else _written(view, msg)
            for msg, form, view in zip(msgs, forms, views, strict=True)
        ]

    def _form(self, msg: Msg) -> _Form:
        known = self._forms.get(msg.id)
        if known is not None and known.fields is not None and known.fields == vars(msg):
            return known
        whole = _converted(msg)
        self._media[whole.message_id] = working.IMAGE_TOKENS * sum(len(others) for others in _media_of(msg).values())
        return _Form(fields_of(msg), whole, whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What is to leave a talk: the messages, as they are stored, and the summary that covers them."""

    msgs: tuple[Msg, ...]
    summary: str


class TalkContext:
    """Says what is shown of a talk, and what is to leave it. It changes no message and no mark."""

    def __init__(
        self,
        limits: ContextLimits,
        *,
        forms: MessageForms,
        model: ChatModelBase | None,
        scope: Scope,
        session_id: str,
        file: MessageFile | None,
    ) -> None:
        """Keep the settings; nothing is opened.

        Args:
            limits: How long a prompt may get.
            forms: Converts and counts messages.
            model: Writes the summaries; None: they quote.
            scope: Whose talk it is.
            session_id: The session.
            file: Where the talk lies; None: in the process, and what is offloaded in a folder that goes with it.
        """
        self._limits = limits
        self._forms = forms
        self._model = None if model is None else reme_agentscope.as_chat_model(model)
        self._file = file
        self._scope = scope
        # A name that the core refuses has another one there, always the same.
        is_usable = _SESSION.fullmatch(session_id) is not None
        self._session_id = session_id if is_usable else hashlib.sha256(session_id.encode()).hexdigest()
        self._make: type[ReMe] = reme_core.ReMe  # loaded here and not with this module
        self._own: ReMe | None = None

    def shown(self, entries: Sequence[Entry], summary: str) -> list[Msg]:
        """Return the messages as they are to be sent: the same objects, but where one is shortened or told in words."""
        return self._forms.shown([msg for msg, _ in entries], summary)

    async def fit(
        self, entries: Sequence[Entry], summary: str, hand_over: Callable[[Sequence[Msg]], Awaitable[None]]
    ) -> Left | None:
        """Shorten what is too long, and return what has to leave besides; None where nothing has, or can.

        All that leaves is on disk by then. It is handed over before that: a long-term memory in the same file makes no
        memories of messages that it finds there.

        Raises:
            ReMeError: Something could not be written.
        """
        forms = await working.off_loop(partial(self._forms.read, [msg for msg, _ in entries]), len(entries))
        await asyncio.to_thread(self._forms.count, forms, summary)  # a counter may ask the network
        msgs = {form.message_id: entry[0] for form, entry in zip(forms, entries, strict=True)}

        async def before(leaving: Sequence[Message]) -> None:
            if leaving:
                await hand_over([msgs[form.message_id] for form in leaving])

        request = working.ContextRequest(
            session_id=self._session_id,
            messages=forms,
            summary=clean_text(summary),
            limits=self._limits,
            asides=_asides(forms, entries),
            extracts=self._model is None,
        )
        prepared = await working.pre_reasoning_hook(self._ports(), self._scope, request, before=before)
        for view in prepared.messages:
            self._forms.show(msgs[view.message_id], view)
        if prepared.problems:
            _LOG.error("the model that summarises has failed, or its summary can't be used: messages stay as they are")
        if not prepared.removed_message_ids:
            return None
        return Left(
            msgs=tuple(msgs[name] for name in prepared.removed_message_ids), summary=prepared.compressed_summary
        )

    async def reload(self, reference: str, *, query: str, offset: int) -> str:
        """Return what was shortened or left, from `offset` on, or where words stand in it (ToolFeedback: no such)."""
        request = working.PieceRequest(
            handle=reference, pattern=query, offset=offset, most_bytes=self._limits.recent_bytes
        )
        return await working.reload_piece(self._memory().store, self._scope, request)

    async def close(self) -> None:
        """Close what was opened here."""
        own, self._own = self._own, None
        if own is not None:
            await own.close(finish_jobs=False)

    def _ports(self) -> working.WorkingPorts:
        """Return what the core works on: a memory without a model, since to learn is the long-term memory's work."""
        return replace(self._memory().working, model=self._model, ledger=self._forms.ledger)

    def _memory(self) -> ReMe:
        if self._file is not None:
            return self._file.memory
        if self._own is None:
            folder = tempfile.mkdtemp(prefix="reme-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            place, store = place_of(Path(folder))
            self._own = self._make(MEMORY_SPACE, place, llm=None, embedding=None, vector_store=store)
        return self._own


def _asides(forms: Sequence[Message], entries: Sequence[Entry]) -> working.Asides:
    """Tell hints of the agent, which go after the next prompt, and what else nobody has said."""
    hints, unsaid = set[str](), set[str]()
    for form, entry in zip(forms, entries, strict=True):
        msg = entry[0]
        if bears(entry, HINT):
            hints.add(form.message_id)
        elif is_injection(name=msg.name, text=form.full_text, metadata=msg.metadata):
            unsaid.add(form.message_id)
    return working.Asides(pinned=frozenset(hints), unsaid=frozenset(unsaid))


def _converted(msg: Msg) -> Message:
    """Return a message in the core's form; as a text, and at most so long, where the core can't take it as it is."""
    try:
        [form] = from_agentscope([msg])
    except (ReMeError, ValueError):
        text = clean_text(msg.get_text_content() or "").strip() or "[no text]"
        read = {"role": msg.role, "name": None, "content": text[:_MOST_CHARS]}
        return Message.model_validate(read)
    return form


def _written(view: Message, msg: Msg) -> Msg:
    """Return a view as a message of AgentScope; a result that was shortened or told keeps its images."""
    [shown] = to_agentscope([view])
    media = _media_of(msg)
    for block in shown.get_content_blocks("tool_result"):
        others = media.pop(block["id"], [])
        if others and isinstance(block["output"], str):
            block["output"] = [TextBlock(type="text", text=block["output"]), *others]
    if any(media.values()):
        shown.content = [*shown.get_content_blocks(), *(part for others in media.values() for part in others)]
    return shown


def _media_of(msg: Msg) -> dict[str, list[ResultPart]]:
    """Return the images, recordings and films in tool results, by the id of the call."""
    return {
        block["id"]: [part for part in block["output"] if part.get("type") in _MEDIA]
        for block in msg.get_content_blocks("tool_result")
        if isinstance(block["output"], list)
    }
