"""The context of one session as an object: messages with marks, and the summary of what has left."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from pydantic import JsonValue, ValidationError

from reme_core.errors import InvalidInputError
from reme_core.ports import HoldOffloads
from reme_core.schema import (
    ContextUse,
    Message,
    OffloadedContext,
    PreparedContext,
    Scope,
    describe,
    parse_messages,
    shown,
)
from reme_core.schema.checks import check_id, check_text
from reme_core.text import Language
from reme_core.working.check import ContextLimits, check_context
from reme_core.working.ports import WorkingPorts
from reme_core.working.prepare import ContextRequest, offload_summary, pre_reasoning_hook
from reme_core.working.record import record
from reme_core.working.summary.sections import is_shown_summary, shown_text, summary_message

_STATE_VERSION = 1


@dataclass(frozen=True, slots=True)
class _Entry:
    message: Message
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Contents:
    """What an `InContextMemory` holds at one moment; changed by putting another one in its place.

    The generation tells whether the context was compacted, loaded, or given another summary in between.
    """

    entries: Mapping[str, _Entry]
    summary: str
    generation: int = 0


class InContextMemory:
    """What a model is to see of one session.

    Messages are held in memory, in the order of adding, until they leave: by compaction (`prepare`), `delete` or
    `clear`. What leaves is in the transcript before it is gone here, and memories are made of it in the background.
    `save` writes what hasn't left yet. One object may be used by several tasks, threads and event loops; it is for one
    session, and two objects for one session don't see each other.
    """

    def __init__(
        self,
        *,
        ports: WorkingPorts,
        scope: Scope,
        session_id: str,
        limits: ContextLimits | None = None,
        system_prompt: str = "",
        overhead_tokens: int = 0,
        language: Language | None = None,
        unrecorded_marks: Iterable[str] = (),
    ) -> None:
        """Keep the settings; nothing is opened.

        Args:
            ports: What it stands on; see `ReMe.in_context_memory`.
            scope: Whose session it is.
            session_id: The session.
            limits: How long the context may get.
            system_prompt: Is sent before, counted, and not held here.
            overhead_tokens: What else is sent: the tools' schemas, say.
            language: Of the summariser's prompt; None follows the conversation.
            unrecorded_marks: Messages with one of these marks are nobody's words (hints of a framework, say): they
                stay in a compaction, and are not written to the transcript when they are taken out.
        """
        self._ports = ports
        self._scope = scope
        self._session_id = session_id
        self._limits = limits or ContextLimits()
        self._system_prompt = system_prompt
        self._overhead_tokens = overhead_tokens
        self._language = language
        self._unrecorded = frozenset(_read_marks(unrecorded_marks))
        self._gate = threading.Lock()
        self._contents = _Contents({}, "")

    def __repr__(self) -> str:
        """Name scope and session, and say how much there is."""
        return f"InContextMemory({self._scope!r}, session_id={self._session_id!r}, messages={self.size()})"

    @property
    def session_id(self) -> str:
        """The session."""
        return self._session_id

    @property
    def limits(self) -> ContextLimits:
        """How long the context may get."""
        return self._limits

    @property
    def compressed_summary(self) -> str:
        """The summary of what has left; empty where nothing has."""
        return self._contents.summary

    def size(self) -> int:
        """Return the number of messages, the summary apart. An empty memory isn't false: it has no `__len__`."""
        return len(self._contents.entries)

    def add(self, messages: object, *, marks: object = ()) -> int:
        """Add messages at the end; those whose id is here already are left as they are, marks included.

        Args:
            messages: A message or a list of them, in the forms that `ReMe.summary` takes.
            marks: A mark or several, for all of them.

        Returns:
            How many were added.

        Raises:
            InvalidInputError: A message or mark that can't be read, naming it; nothing was added.
        """
        items = [messages] if isinstance(messages, (Message, Mapping)) else messages
        now = self._ports.clock.now()
        given = parse_messages(items, now=lambda: now)
        # The summary, this one or an earlier one, handed back. That of another context is what this one begins with.
        parsed = [item for item in given if not is_shown_summary(item)]
        summaries = [text for item in given if (text := shown_text(item)) is not None]
        wanted, reserved = _read_marks(marks), summary_message(self._session_id, "").message_id
        if any(item.message_id == reserved for item in parsed):
            msg = f"message_id: {reserved!r} is that of the summary: give the message another one"
            raise InvalidInputError(msg)
        with self._gate:
            entries = dict(self._contents.entries)
            for message in parsed:
                entries.setdefault(message.message_id, _Entry(message, wanted))
            added = len(entries) - len(self._contents.entries)
            self._contents = replace(self._contents, entries=entries)
            if summaries and not self._contents.summary and added == len(entries):
                self._contents = replace(self._contents, summary=summaries[-1])
        return added

    def messages(
        self, *, mark: str | None = None, exclude_mark: str | None = None, include_summary: bool = True
    ) -> list[Message]:
        """Return messages in the order of adding.

        Args:
            mark: Only those that bear this mark.
            exclude_mark: Only those that don't bear this one.
            include_summary: With a message that shows the summary, behind the leading system messages.
        """
        contents = self._contents
        wanted = frozenset(() if mark is None else _read_marks(mark))
        unwanted = frozenset(() if exclude_mark is None else _read_marks(exclude_mark))
        found = [
            entry.message
            for entry in contents.entries.values()
            if wanted <= set(entry.marks) and not unwanted.intersection(entry.marks)
        ]
        if not include_summary or not contents.summary.strip():
            return found
        leading = 0
        while leading < len(found) and found[leading].role == "system":
            leading += 1
        return [*found[:leading], summary_message(self._session_id, contents.summary), *found[leading:]]

    def marks(self, message_id: str) -> tuple[str, ...]:
        """Return the marks of a message; none where there is no such message here."""
        entry = self._contents.entries.get(message_id)
        return () if entry is None else entry.marks

    def update_marks(
        self, new_mark: str | None, *, old_mark: str | None = None, message_ids: Iterable[str] | None = None
    ) -> int:
        """Change marks.

        Args:
            new_mark: The mark to set; None only removes `old_mark`.
            old_mark: Only its bearers change, and it goes.
            message_ids: Only these messages; ids that aren't here are passed over.

        Returns:
            How many messages were changed.
        """
        new = () if new_mark is None else _read_marks(new_mark)
        old = frozenset(() if old_mark is None else _read_marks(old_mark))
        wanted = None if message_ids is None else frozenset(message_ids)
        changed = 0
        with self._gate:
            entries = dict(self._contents.entries)
            for name, entry in entries.items():
                if (wanted is not None and name not in wanted) or not old <= set(entry.marks):
                    continue
                marks = tuple(dict.fromkeys((*(mark for mark in entry.marks if mark not in old), *new)))
                if marks != entry.marks:
                    entries[name] = replace(entry, marks=marks)
                    changed += 1
            self._contents = replace(self._contents, entries=entries)
        return changed

    def estimate_tokens(self) -> ContextUse:
        """Return how full the context is."""
        contents = self._contents
        check = check_context(
            [entry.message for entry in contents.entries.values()],
            limits=self._limits,
            ledger=self._ports.ledger,
            system_prompt=self._system_prompt,
            summary=contents.summary,
            overhead_tokens=self._overhead_tokens,
        )
        summary = self._ports.ledger.count_text(contents.summary)
        return ContextUse(
            messages=check.message_tokens,
            summary=summary,
            taken=check.tokens - check.message_tokens - summary,
            tokens=check.tokens,
            threshold=check.threshold,
            max_input_length=self._limits.max_input_length,
            ratio=check.tokens / self._limits.max_input_length,
        )

    async def prepare(self) -> PreparedContext:
        """Bring the context below its limit, before a model is asked; see `pre_reasoning_hook`.

        What is added meanwhile stays. The answer's `messages` don't show the summary; `messages()` does.

        Raises:
            ContextTooLongError: System prompt and tools leave no room; nothing has changed.
            StoreError: Something couldn't be written; nothing has changed.
        """
        while True:
            before = self._contents
            prepared = await pre_reasoning_hook(self._ports, self._scope, self._request(before))
            with self._gate:
                # Another task has compacted it, or loaded another one: what was prepared here is about neither.
                if self._contents.generation != before.generation:
                    continue
                if prepared.has_changed:
                    self._contents = _after(before, self._contents, prepared, self._unrecorded)
            return prepared.model_copy(update={"messages": tuple(self.messages(include_summary=False))})

    async def set_summary(self, summary: str) -> None:
        """Replace the summary; the one before is offloaded first. The empty text removes it.

        Raises:
            InvalidInputError: A text that can't be kept as it is.
            StoreError: Nothing has changed.
        """
        try:
            check_text(summary)
        except (ValueError, AttributeError) as exc:
            msg = f"summary: {exc}"
            raise InvalidInputError(msg) from exc
        while True:
            before = self._contents.summary
            if before == summary:
                return
            await offload_summary(self._ports, self._scope, self._session_id, before)
            with self._gate:
                if self._contents.summary == before:
                    generation = self._contents.generation + 1
                    self._contents = replace(self._contents, summary=summary, generation=generation)
                    return

    async def delete(self, message_ids: Iterable[str]) -> int:
        """Take messages out; they are in the transcript first. Ids that aren't here are passed over.

        Returns:
            How many were taken out.
        """
        wanted = frozenset(message_ids)
        return await self._take_out(wanted)

    async def delete_by_mark(self, marks: object) -> int:
        """Take out the messages that bear one of these marks; they are in the transcript first."""
        wanted = frozenset(_read_marks(marks))
        entries = self._contents.entries
        return await self._take_out({name for name, entry in entries.items() if wanted.intersection(entry.marks)})

    async def clear(self) -> int:
        """Take everything out, the summary too; all of it is on disk first."""
        await self.set_summary("")
        return await self._take_out(frozenset(self._contents.entries))

    async def save(self) -> OffloadedContext:
        """Write all messages to the transcript; they stay here. Memories are made of them in the background."""
        return await self._record(list(self._contents.entries.values()))

    async def close(self) -> None:
        """Write all messages to the transcript and let go of what the context refers to: clean-ups may take it."""
        await self.save()
        hold = HoldOffloads(session_id=self._session_id, references=frozenset(), now=self._ports.clock.now())
        self._ports.held.forget(self._scope, self._session_id)  # it may be used on
        await self._ports.store.hold_offloads(self._scope, hold)

    def state_dict(self) -> dict[str, JsonValue]:
        """Return everything as JSON values: a copy, which later changes don't touch."""
        contents = self._contents
        return {
            "version": _STATE_VERSION,
            "session_id": self._session_id,
            "compressed_summary": contents.summary,
            "messages": [
                [entry.message.model_dump(mode="json"), list(entry.marks)] for entry in contents.entries.values()
            ],
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Replace everything by what `state_dict` gave, of this session or another.

        Raises:
            InvalidInputError: It is not what `state_dict` gives, naming what is wrong; nothing has changed.
        """
        contents = _read_state(state)
        with self._gate:
            self._contents = replace(contents, generation=self._contents.generation + 1)

    def _request(self, contents: _Contents) -> ContextRequest:
        """Ask for a context of what may leave; the rest is counted and stays."""
        leaving, staying = list[Message](), list[Message]()
        for entry in contents.entries.values():
            (staying if self._unrecorded.intersection(entry.marks) else leaving).append(entry.message)
        return ContextRequest(
            session_id=self._session_id,
            messages=leaving,
            summary=contents.summary,
            system_prompt=self._system_prompt,
            overhead_tokens=self._overhead_tokens + self._ports.ledger.count_messages(staying),
            limits=self._limits,
            language=self._language,
        )

    async def _take_out(self, wanted: Set[str]) -> int:
        """Take messages out once they are on disk; one that changes meanwhile is written as well, and taken then."""
        taken = 0
        while True:
            entries = [entry for name, entry in self._contents.entries.items() if name in wanted]
            if not entries:
                return taken
            await self._record(entries)
            with self._gate:
                left = dict(self._contents.entries)
                for entry in entries:
                    found = left.get(entry.message.message_id)
                    if found is not None and found.message is entry.message:
                        del left[entry.message.message_id]
                        taken += 1
                self._contents = replace(self._contents, entries=left)

    async def _record(self, entries: Sequence[_Entry]) -> OffloadedContext:
        said = [entry.message for entry in entries if not self._unrecorded.intersection(entry.marks)]
        return await record(self._ports, self._scope, self._session_id, said)


def _after(before: _Contents, now: _Contents, prepared: PreparedContext, unrecorded: frozenset[str]) -> _Contents:
    """Return what is held after a preparation.

    What was added, marked, replaced or taken out meanwhile stays so, and so does what isn't recorded.
    """
    views = {message.message_id: message for message in prepared.messages}
    entries: dict[str, _Entry] = {}
    for name, entry in now.entries.items():
        earlier = before.entries.get(name)
        if earlier is None or earlier.message is not entry.message or unrecorded.intersection(earlier.marks):
            entries[name] = entry
        elif name in views:
            entries[name] = replace(entry, message=views[name])
    return _Contents(entries, prepared.compressed_summary, now.generation + 1)


def _read_marks(marks: object) -> tuple[str, ...]:
    """Read a mark or several; members of a `str` Enum are their values (InvalidInputError)."""
    items = [marks] if isinstance(marks, str) else marks
    if not isinstance(items, Iterable) or isinstance(items, (bytes, Mapping)):
        msg = f"marks: wanted a string or a list of strings, found {shown(marks)}"
        raise InvalidInputError(msg)
    read = []
    for item in items:
        if not isinstance(item, str):
            msg = f"marks: wanted strings, found {shown(item)}"
            raise InvalidInputError(msg)
        try:
            read.append(check_id(str.__str__(item)))
        except ValueError as exc:
            msg = f"marks: {exc}"
            raise InvalidInputError(msg) from exc
    return tuple(dict.fromkeys(read))


def _read_state(state: object) -> _Contents:
    if not isinstance(state, Mapping):
        msg = f"state: wanted what state_dict gives, found {type(state).__name__}"
        raise InvalidInputError(msg)
    if state.get("version") != _STATE_VERSION:
        msg = f"state: wanted version {_STATE_VERSION}, found {shown(state.get('version'))}"
        raise InvalidInputError(msg)
    summary, items = state.get("compressed_summary"), state.get("messages")
    if not isinstance(summary, str) or not isinstance(items, Sequence):
        msg = "state: wanted 'compressed_summary', a text, and 'messages', a list: as state_dict gives them"
        raise InvalidInputError(msg)
    entries: dict[str, _Entry] = {}
    for place, item in enumerate(items):
        if not isinstance(item, Sequence) or isinstance(item, str) or len(item) != 2:
            msg = f"state: messages[{place}]: wanted a message and its marks"
            raise InvalidInputError(msg)
        try:
            message = Message.model_validate(item[0])
        except ValidationError as exc:
            raise InvalidInputError(describe(exc, f"state: messages[{place}]")) from exc
        if message.message_id in entries:
            msg = f"state: messages[{place}]: {message.message_id!r} stands twice"
            raise InvalidInputError(msg)
        entries[message.message_id] = _Entry(message, _read_marks(item[1]))
    return _Contents(entries, summary)
