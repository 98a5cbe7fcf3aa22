"""The context of one session as an object: messages with marks, and the summary of what has left."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, overload

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.ports import HoldOffloads
from reme_core.schema import (
    ContextUse,
    Message,
    OffloadedContext,
    PreparedContext,
    Scope,
)
from reme_core.schema.checks import check_text
from reme_core.schema.openai_messages import wire_messages
from reme_core.text import Language
from reme_core.working.messages_to_keep import Asides, ContextLimits, check_context
from reme_core.working.ports import WorkingPorts, off_loop, read_marks, read_said, read_state
from reme_core.working.prepare import ContextRequest, pre_reasoning_hook
from reme_core.working.record import offload_summary, record
from reme_core.working.summary.sections import summary_id, summary_message


@dataclass(frozen=True, slots=True)
class _Entry:
    message: Message
    marks: tuple[str, ...]


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
        self._unrecorded = frozenset(read_marks(unrecorded_marks))
        self._gate = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self._summary = ""
        # Whether the context was compacted, loaded, or given another summary in between.
        self._generation = 0

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
        return self._summary

    def size(self) -> int:
        """Return the number of messages, the summary apart."""
        return len(self._entries)

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
        return self._put(*self._read(messages, marks))

    async def extend(self, messages: object, *, marks: object = ()) -> int:
        """Do what `add` does; many messages, of which each takes some 20 microseconds, are read off the event loop."""
        size = len(messages) if isinstance(messages, (list, tuple)) else 0
        return self._put(*await off_loop(partial(self._read, messages, marks), size))

    def _read(self, messages: object, marks: object) -> tuple[dict[str, _Entry], str]:
        """Read what is to be added, and the summary of another context, with which this one begins."""
        wanted = read_marks(marks)
        items = [messages] if isinstance(messages, (Message, Mapping)) else messages
        said, summary = read_said(items, self._ports.clock.now())
        entries = {message.message_id: _Entry(message, wanted) for message in said}
        if (reserved := summary_id(self._session_id)) in entries:
            msg = f"message_id: {reserved!r} is that of the summary: give the message another one"
            raise InvalidInputError(msg)
        return entries, summary

    def _put(self, entries: Mapping[str, _Entry], summary: str) -> int:
        with self._gate:
            before = len(self._entries)
            if summary and not self._summary and not before:
                self._summary = summary
            self._entries.update({name: entry for name, entry in entries.items() if name not in self._entries})
            return len(self._entries) - before

    @overload
    def messages(
        self,
        *,
        mark: str | None = None,
        exclude_mark: str | None = None,
        include_summary: bool = True,
        as_dicts: Literal[False] = False,
    ) -> list[Message]: ...

    @overload
    def messages(
        self,
        *,
        mark: str | None = None,
        exclude_mark: str | None = None,
        include_summary: bool = True,
        as_dicts: Literal[True],
    ) -> list[JsonValue]: ...

    def messages(
        self,
        *,
        mark: str | None = None,
        exclude_mark: str | None = None,
        include_summary: bool = True,
        as_dicts: bool = False,
    ) -> list[Message] | list[JsonValue]:
        """Return messages in the order of adding.

        Args:
            mark: Only those that bear this mark.
            exclude_mark: Only those that don't bear this one.
            include_summary: With a message that shows the summary, behind the leading system messages.
            as_dicts: As dictionaries in OpenAI's form, for `client.chat.completions.create(messages=...)`; thinking and
                vendor data are left out.
        """
        found = self._chosen(mark, exclude_mark, include_summary=include_summary)
        return [part for message in found for part in wire_messages(message)] if as_dicts else found

    def _chosen(self, mark: str | None, exclude_mark: str | None, *, include_summary: bool) -> list[Message]:
        wanted = frozenset(() if mark is None else read_marks(mark))
        unwanted = frozenset(() if exclude_mark is None else read_marks(exclude_mark))
        with self._gate:
            entries, summary = list(self._entries.values()), self._summary
        found = [
            entry.message
            for entry in entries
            if wanted.issubset(entry.marks) and not unwanted.intersection(entry.marks)
        ]
        if not include_summary or not summary.strip():
            return found
        leading = 0
        while leading < len(found) and found[leading].role == "system":
            leading += 1
        return [*found[:leading], summary_message(self._session_id, summary), *found[leading:]]

    def _said(self) -> list[Message]:
        """Return all messages, without the summary: a call at each turn, of ten thousand of them."""
        with self._gate:
            return [entry.message for entry in self._entries.values()]

    def marks(self, message_id: str) -> tuple[str, ...]:
        """Return the marks of a message; none where there is no such message here."""
        entry = self._entries.get(message_id)
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
        new = () if new_mark is None else read_marks(new_mark)
        old = frozenset(() if old_mark is None else read_marks(old_mark))
        wanted = None if message_ids is None else frozenset(message_ids)
        changed = 0
        with self._gate:
            for name, entry in self._entries.items():
                if (wanted is not None and name not in wanted) or not old.issubset(entry.marks):
                    continue
                marks = tuple(dict.fromkeys((*(mark for mark in entry.marks if mark not in old), *new)))
                if marks != entry.marks:
                    self._entries[name] = replace(entry, marks=marks)
                    changed += 1
        return changed

    def estimate_tokens(self) -> ContextUse:
        """Return how full the context is."""
        check = check_context(
            self._said(),
            limits=self._limits,
            ledger=self._ports.ledger,
            system_prompt=self._system_prompt,
            overhead_tokens=self._overhead_tokens,
        )
        summary = self._ports.ledger.count_text(self._summary)
        tokens = check.tokens + summary
        return ContextUse(
            messages=check.message_tokens,
            summary=summary,
            taken=check.tokens - check.message_tokens,
            tokens=tokens,
            threshold=check.threshold,
            max_input_length=self._limits.max_input_length,
            ratio=tokens / self._limits.max_input_length,
        )

    async def prepare(self) -> PreparedContext:
        """Bring the context below its limit, before a model is asked; see `pre_reasoning_hook`.

        What is added meanwhile stays. The answer's `messages` don't show the summary; `messages()` does.

        Raises:
            ContextTooLongError: System prompt and tools leave no room; nothing has changed.
            StoreError: Something couldn't be written; nothing has changed.
        """
        while True:
            with self._gate:
                before, summary, generation = dict(self._entries), self._summary, self._generation
            prepared = await pre_reasoning_hook(self._ports, self._scope, self._request(before, summary))
            with self._gate:
                # Another task has compacted it, or loaded another one: what was prepared here is about neither.
                if self._generation != generation:
                    continue
                if prepared.has_changed:
                    self._take_over(before, prepared)
            return prepared.model_copy(update={"messages": tuple(self._said())})

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
        while (before := self._summary) != summary:
            await offload_summary(self._ports, self._scope, self._session_id, before)
            with self._gate:
                if self._summary == before:
                    self._summary, self._generation = summary, self._generation + 1

    async def delete(self, message_ids: Iterable[str]) -> int:
        """Take messages out; they are in the transcript first. Ids that aren't here are passed over.

        Returns:
            How many were taken out.
        """
        wanted = frozenset(message_ids)
        return await self._take_out(wanted)

    async def delete_by_mark(self, marks: object) -> int:
        """Take out the messages that bear one of these marks; they are in the transcript first."""
        wanted = frozenset(read_marks(marks))
        with self._gate:
            found = {name for name, entry in self._entries.items() if wanted.intersection(entry.marks)}
        return await self._take_out(found)

    async def clear(self) -> int:
        """Take everything out, the summary too; all of it is on disk first."""
        await self.set_summary("")
        return await self._take_out(frozenset(self._entries))

    async def save(self) -> OffloadedContext:
        """Write all messages to the transcript; they stay here. Memories are made of them in the background."""
        return await self._record(list(self._entries.values()))

    async def close(self) -> None:
        """Write all messages to the transcript and let go of what the context refers to: clean-ups may take it."""
        await self.save()
        hold = HoldOffloads(session_id=self._session_id, references=frozenset(), now=self._ports.clock.now())
        self._ports.held.forget(self._scope, self._session_id)  # it may be used on
        await self._ports.store.hold_offloads(self._scope, hold)

    def state_dict(self) -> dict[str, JsonValue]:
        """Return everything as JSON values: a copy, which later changes don't touch."""
        with self._gate:
            entries, summary = list(self._entries.values()), self._summary
        return {
            "version": 1,
            "session_id": self._session_id,
            "compressed_summary": summary,
            "messages": [[entry.message.model_dump(mode="json"), list(entry.marks)] for entry in entries],
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Replace everything by what `state_dict` gave, of this session or another.

        Raises:
            InvalidInputError: It is not what `state_dict` gives, naming what is wrong; nothing has changed.
        """
        read = read_state(state)
        entries = {message.message_id: _Entry(message, read_marks(marks)) for message, marks in read.messages}
        with self._gate:
            self._entries, self._summary, self._generation = entries, read.compressed_summary, self._generation + 1

    def _request(self, entries: Mapping[str, _Entry], summary: str) -> ContextRequest:
        unsaid = self._unrecorded
        pinned = {name for name, entry in entries.items() if unsaid.intersection(entry.marks)} if unsaid else set()
        return ContextRequest(
            session_id=self._session_id,
            messages=[entry.message for entry in entries.values()],
            summary=summary,
            system_prompt=self._system_prompt,
            overhead_tokens=self._overhead_tokens,
            limits=self._limits,
            language=self._language,
            asides=Asides(pinned=frozenset(pinned)),
        )

    def _take_over(self, before: Mapping[str, _Entry], prepared: PreparedContext) -> None:
        """Hold what was prepared; what was added, marked, replaced or taken out meanwhile stays so. Held: the gate."""
        views = {message.message_id: message for message in prepared.messages}
        for name in (*prepared.removed_message_ids, *views):
            entry = self._entries.get(name)
            if entry is None or entry.message is not before[name].message:
                continue
            if name in views:
                self._entries[name] = replace(entry, message=views[name])
            else:
                del self._entries[name]
        self._summary, self._generation = prepared.compressed_summary, self._generation + 1

    async def _take_out(self, wanted: Set[str]) -> int:
        """Take messages out once they are on disk; one that changes meanwhile is written as well, and taken then."""
        taken = 0
        while entries := [entry for name, entry in list(self._entries.items()) if name in wanted]:
            await self._record(entries)
            with self._gate:
                for entry in entries:
                    found = self._entries.get(entry.message.message_id)
                    if found is not None and found.message is entry.message:
                        del self._entries[entry.message.message_id]
                        taken += 1
        return taken

    async def _record(self, entries: Sequence[_Entry]) -> OffloadedContext:
        said = [entry.message for entry in entries if not self._unrecorded.intersection(entry.marks)]
        return await record(self._ports, self._scope, self._session_id, said)
