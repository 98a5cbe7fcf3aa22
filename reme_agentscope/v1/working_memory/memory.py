"""The working memory of AgentScope 1.x: what an agent is to see of one session, on disk if wanted, within a budget."""

from __future__ import annotations

import asyncio
import logging
from copy import deepcopy
from pathlib import Path
from typing import Any

from agentscope.memory import InMemoryMemory, LongTermMemoryBase
from agentscope.message import Msg, TextBlock
from agentscope.model import ChatModelBase
from agentscope.token import TokenCounterBase
from agentscope.tool import ToolResponse

from reme_agentscope._shared.opening import ClosedAtEnd
from reme_agentscope.v1.working_memory._contents import LongTermHandOver, LoopLocks, SessionContents
from reme_agentscope.v1.working_memory._context import MessageForms, TalkContext, limits_of
from reme_agentscope.v1.working_memory._memory_file import MessageFile, check_session, scope_of
from reme_agentscope.v1.working_memory._memory_state import (
    COMPRESSED,
    Entry,
    as_json,
    bears,
    encode,
    history_of,
    read_entry,
    read_ids,
    read_mark,
    read_marks,
    read_messages,
    read_summary,
    summary_message,
    use_of,
)
from reme_core.errors import ReMeError, ToolFeedback

_LOG = logging.getLogger("reme_agentscope")


class ReMeMemory(ClosedAtEnd, InMemoryMemory):
    """The messages of one session with their marks, and the summary of what has left the prompt.

    `content` is the one store in the process, and what `get_memory` returns are its messages, as with AgentScope's
    class. With a `location` they lie on disk as well: a call that changes something returns after that is written, and
    another object, in this process or another, sees it with its next call. What a client changes in `content` or in a
    message is written with the next change or by `flush()`.

    With `max_tokens` a `get_memory()` without marks keeps the prompt within that budget: long tool results are shown
    shortened, the oldest messages get the mark `compressed` and make way for a summary. Nothing is deleted by it. The
    agent's own compression is then to be off (`compression_config=None`).
    """

    def __init__(
        self,
        *,
        token_counter: TokenCounterBase | None = None,
        max_tokens: int | None = None,
        keep_recent: int = 3,
        model: ChatModelBase | None = None,
        long_term_memory: LongTermMemoryBase | None = None,
        location: Path | str | None = None,
        session_id: str = "default",
        user_id: str | None = None,
        shared: bool = False,
        copy_on_read: bool = False,
    ) -> None:
        """Keep the settings; nothing is opened.

        Args:
            token_counter: Counts tokens; by default they are estimated from characters.
            max_tokens: The budget of a prompt: system prompt and tools, for which a tenth is set aside, summary and
                messages. None: nothing is compacted and nothing is hidden.
            keep_recent: So many of the newest messages stay when others leave, if the budget holds them.
            model: Writes the summaries; without one they quote what was said.
            long_term_memory: Is handed what leaves, before it does: the agent's `record` no longer sees it.
            location: A folder, or a file ending in .db, .sqlite or .sqlite3, or the URL of a database of PostgreSQL; it
                may be that of a `ReMe`. None: the memory ends with the process.
            session_id: Whose messages these are, among those of the user.
            user_id: Nobody sees another one's messages, whatever the session. None: the user `default`.
            shared: The shared scope of the memory space, in place of a user.
            copy_on_read: Return copies, so that changing them changes nothing here.

        Raises:
            InvalidInputError: A name or number that can't be one.
        """
        super().__init__()
        check_session(session_id)
        scope = scope_of(user_id, shared=shared)
        self._file = None if location is None else MessageFile(location, scope=scope, session_id=session_id)
        self._held = SessionContents(self._file)
        self._hand_over = LongTermHandOver(long_term_memory)
        self._copies = copy_on_read
        self._fitting = LoopLocks()
        self._forms = MessageForms(token_counter)
        self._context: TalkContext | None = None
        if max_tokens is not None:
            self._context = TalkContext(
                limits_of(max_tokens, keep_recent),
                forms=self._forms,
                model=model,
                scope=scope,
                session_id=session_id,
                file=self._file,
            )

    @property
    def content(self) -> list[tuple[Msg, list[str]]]:
        """The messages and their marks, in order; read from disk with the first access."""
        held = self._opened()
        return [] if held is None else held.entries

    @content.setter
    def content(self, entries: list[tuple[Msg, list[str]]]) -> None:
        held = self._opened()
        if held is not None:
            held.entries = entries

    @property
    def _compressed_summary(self) -> str:
        held = self._opened()
        return "" if held is None else held.summary

    @_compressed_summary.setter
    def _compressed_summary(self, summary: str) -> None:
        held = self._opened()
        if held is not None:
            held.summary = read_summary(summary)

    async def add(
        self, memories: Msg | list[Msg] | None, marks: str | list[str] | None = None, *args: object, **kwargs: object
    ) -> None:
        """Add copies of messages at the end; one whose id is here already stays as it is, marks included.

        Raises:
            TypeError: No messages, or marks that are no strings.
            ReMeError: It could not be written; nothing was added.
        """
        given, wanted = read_messages(memories), read_marks(marks)
        if not given:
            return

        def add() -> None:
            known = {msg.id for msg, _ in self._held.entries}
            for msg in given:
                if msg.id not in known:
                    known.add(msg.id)
                    self._held.entries.append((deepcopy(msg), list(wanted)))

        await self._held.change(add)

    async def get_memory(
        self,
        mark: str | None = None,
        exclude_mark: str | None = None,
        prepend_summary: bool = True,  # noqa: FBT001, FBT002  # AgentScope's signature
        **kwargs: object,
    ) -> list[Msg]:
        """Return messages in the order of adding, behind the summary if there is one.

        Args:
            mark: Only those that bear this mark.
            exclude_mark: Only those that don't bear this one.
            prepend_summary: With a message that shows the summary.
            **kwargs: Ignored.

        Raises:
            TypeError: A mark that is neither a string nor None.
        """
        wanted, unwanted = read_mark(mark, "mark"), read_mark(exclude_mark, "exclude_mark")
        if self._context is not None and wanted is None and unwanted is None:
            found = await self._fitted(self._context)
        else:
            async with self._held.turn():
                found = [
                    entry[0]
                    for entry in self._held.entries
                    if (wanted is None or bears(entry, wanted)) and (unwanted is None or not bears(entry, unwanted))
                ]
        if prepend_summary and self._held.summary:
            found = [summary_message(self._held.summary), *found]
        return deepcopy(found) if self._copies else found

    async def delete(self, msg_ids: list[str], **kwargs: object) -> int:
        """Remove messages, and return how many there were."""
        wanted = read_ids(msg_ids)
        return await self._held.remove(lambda entry: entry[0].id in wanted)

    async def delete_by_mark(self, mark: str | list[str], *args: object, **kwargs: object) -> int:
        """Remove the messages that bear one of these marks, and return how many there were.

        Raises:
            TypeError: No marks.
        """
        wanted = read_marks(mark, needed=True)
        return await self._held.remove(lambda entry: any(bears(entry, one) for one in wanted))

    async def update_messages_mark(
        self, new_mark: str | None, old_mark: str | None = None, msg_ids: list[str] | None = None
    ) -> int:
        """Set a mark, or put it in the place of another one; None only removes that one.

        What gets the mark `compressed`, which hides it from the agent's `record`, is handed to the long-term memory
        first.

        Returns:
            How many messages were changed.
        """
        new, old = read_mark(new_mark, "new_mark"), read_mark(old_mark, "old_mark")
        ids = None if msg_ids is None else read_ids(msg_ids)

        def is_meant(entry: Entry) -> bool:
            return (ids is None or entry[0].id in ids) and (old is None or bears(entry, old))

        if new == COMPRESSED:
            async with self._held.turn():
                leaving = [entry[0] for entry in self._held.entries if is_meant(entry) and not bears(entry, new)]
            await self._hand_over.hand_over(leaving)

        def update() -> int:
            changed = 0
            for place, (msg, marks) in enumerate(self._held.entries):
                if not is_meant((msg, marks)):
                    continue
                left = [mark for mark in marks if mark != old or mark == new]
                marked = left if new is None or new in left else [*left, new]
                if marked != marks:
                    self._held.entries[place] = (msg, marked)
                    changed += 1
            return changed

        return await self._held.change(update)

    async def update_compressed_summary(self, summary: str) -> None:
        """Replace the summary; an empty one, or None, removes it.

        Raises:
            TypeError: No text.
        """
        wanted = read_summary(summary)

        def update() -> None:
            self._held.summary = wanted

        await self._held.change(update)

    async def size(self) -> int:
        """Return the number of messages, the summary apart."""
        async with self._held.turn():
            return len(self._held.entries)

    async def clear(self) -> None:
        """Remove all messages, and the summary, by which an agent would still see the old talk."""

        def clear() -> None:
            self._held.entries.clear()
            self._held.summary = ""

        await self._held.change(clear)

    def state_dict(self) -> dict[str, Any]:
        """Return everything as JSON values, in AgentScope's layout: a copy, which later changes don't touch."""
        self._held.load_now()
        return {
            "_compressed_summary": self._held.summary,
            "content": [as_json(encode(entry)) for entry in self._held.entries],
        }

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:  # noqa: FBT001, FBT002  # as above
        """Replace everything by what `state_dict` gave, of this class or AgentScope's; it is on disk on return.

        Raises:
            KeyError: `content` is missing, if `strict`.
            ValueError: Something else that no state has (TypeError: marks or a summary that are none); nothing has
                changed.
        """
        if strict and "content" not in state_dict:
            msg = "The state_dict does not contain 'content' keys required for ReMeMemory."
            raise KeyError(msg)
        entries = [read_entry(item) for item in deepcopy(state_dict.get("content", []))]
        summary = read_summary(state_dict.get("_compressed_summary"))

        def replace() -> None:
            self._held.entries[:] = entries
            self._held.summary = summary

        self._held.change_now(replace)

    def get_compressed_summary(self) -> str:
        """Return the summary, empty where there is none."""
        self._held.load_now()
        return self._held.summary

    def clear_compressed_summary(self) -> None:
        """Remove the summary."""

        def clear() -> None:
            self._held.summary = ""

        self._held.change_now(clear)

    async def mark_messages_compressed(self, messages: list[Msg]) -> int:
        """Give messages the mark `compressed`, and return how many were changed."""
        return await self.update_messages_mark(COMPRESSED, msg_ids=[msg.id for msg in messages])

    def clear_content(self) -> None:
        """Remove all messages and keep the summary. With a location their rows stay on disk, out of the memory."""
        self._held.change_now(lambda: self._held.entries.clear(), keep_removed=True)

    async def estimate_tokens(self, max_input_length: int | None = None) -> dict[str, Any]:
        """Return how full the prompt is: figures by name, in the layout of the class that clients know.

        What bears the mark `compressed` doesn't count, as the summary stands for it.

        Args:
            max_input_length: The window, for `context_usage_ratio`, which is in percent.
        """
        async with self._held.turn():
            msgs = [entry[0] for entry in self._held.entries if not bears(entry, COMPRESSED)]
            summary = self._held.summary
        forms = self._forms.read(msgs)
        counts, summary_tokens = await asyncio.to_thread(self._forms.count, forms, summary)
        return use_of(msgs, [form.full_text for form in forms], counts, summary_tokens, max_input_length)

    async def get_history_str(self, max_input_length: int | None = None) -> str:
        """Return the talk as a text for people: how full the prompt is, and how each message begins."""
        return history_of(await self.estimate_tokens(max_input_length))

    async def reload(self, reference: str, query: str = "", offset: int = 0) -> ToolResponse:
        """Load again a text that was shortened, or messages that made way for a summary.

        Where the conversation says "reload" and a reference of sixteen letters and digits, this gives the whole text
        behind it, piece by piece.

        Args:
            reference (str): The reference, as it stands behind the word reload.
            query (str): Words; only the lines with them are given. Leave it out for the text itself.
            offset (int): The number of characters to skip, to go on where the last piece ended.
        """
        try:
            if self._context is None:
                text = "Nothing was shortened in this conversation."
            else:
                text = await self._context.reload(reference, query=query, offset=offset)
        except (ReMeError, ToolFeedback) as exc:
            text = f"Error: {exc}"
        return ToolResponse(content=[TextBlock(type="text", text=text)])

    async def flush(self) -> None:
        """Write what clients have changed in messages and in `content`.

        What the long-term memory failed to take is handed to it again.
        """
        await self._held.flush()
        await self._hand_over.hand_over(())

    async def close(self) -> None:
        """Flush, and close the file; the next call opens it again."""
        await self.flush()
        if self._context is not None:
            await self._context.close()
        if self._file is not None:
            await self._file.close()

    def _opened(self) -> SessionContents | None:
        """Return the contents, read from disk; None while the classes above are still being set up."""
        held: SessionContents | None = self.__dict__.get("_held")
        if held is not None:
            held.load_now()
        return held

    def _visible(self) -> list[Entry]:
        """Return what a prompt within a budget shows."""
        return [entry for entry in self._held.entries if not bears(entry, COMPRESSED)]

    async def _fitted(self, context: TalkContext) -> list[Msg]:
        """Return what a prompt is to show, brought within its budget."""
        async with self._fitting.here():
            async with self._held.turn():
                entries, summary = self._visible(), self._held.summary
            try:
                left = await context.fit(entries, summary, self._hand_over.hand_over)
                if left is not None:
                    await self._held.hide({msg.id for msg in left.msgs}, summary, left.summary)
            except Exception as exc:  # noqa: BLE001  # a reply is not to end by it: the messages stay as they are
                _LOG.error(  # a traceback may show what was said
                    "the messages of a working memory were not compacted and stay: %s", type(exc).__name__
                )
            return context.shown(self._visible(), self._held.summary)
