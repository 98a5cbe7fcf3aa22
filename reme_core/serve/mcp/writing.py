"""Tools that write: `remember`, `record`, `revise`, `forget`."""

from __future__ import annotations

import contextlib

from reme_core.errors import InvalidInputError, MemoryNotFoundError, PartialFailureError, ReMeError
from reme_core.retrieval.hits import hit_of_memory
from reme_core.schema import Memory, TrustClass, found_text, least_trusted, new_id
from reme_core.serve.mcp.answers import ForgetAnswer, IdAnswer, RecordAnswer
from reme_core.serve.mcp.arguments import (
    ForgetArguments,
    RecordArguments,
    RememberArguments,
    ReviseArguments,
    SaidMessage,
)
from reme_core.serve.mcp.caller import Caller
from reme_core.serve.mcp.reading import MAX_TEXT_CHARS
from reme_core.serve.mcp.transcript import read_transcript

AUTHOR = "agent"
"""Who wrote what came by a tool: a model, not the user."""


async def remember(caller: Caller, given: RememberArguments) -> IdAnswer:
    """Add a fact; one that is there already is the answer."""
    own_id = new_id()
    draft: dict[str, object] = {"memory_id": own_id, "content": given.content, "author": AUTHOR}
    told = {"memory_target": given.about, "valid_from": given.valid_from, "valid_to": given.valid_to}
    draft.update({name: value for name, value in told.items() if value is not None})
    [memory] = await caller.memory.add_memories([draft], user_id=caller.user_id)
    is_known = memory.memory_id != own_id
    text = f"{'Known already' if is_known else 'Remembered'} as {memory.memory_id}"
    return IdAnswer(text=text, id=memory.memory_id, known=is_known)


async def record(caller: Caller, given: RecordArguments) -> RecordAnswer:
    """Keep messages, or a pasted transcript; memories are made of them in the background."""
    kept = await caller.memory.summary(_said(given), user_id=caller.user_id, session_id=given.session, background=True)
    known = f", {len(kept.known_message_ids)} of them known" if kept.known_message_ids else ""
    jobs = f"; job {', '.join(kept.job_ids)} makes memories of them" if kept.job_ids else ""
    return RecordAnswer(
        text=f"{len(kept.message_ids)} messages are on disk{known}{jobs}",
        session=kept.session_id,
        message_ids=list(kept.message_ids),
        job_ids=list(kept.job_ids),
    )


def _said(given: RecordArguments) -> list[dict[str, object]]:
    """Return the messages (InvalidInputError: none, or both forms)."""
    if (given.messages is None) == (given.transcript is None):
        msg = "record: wanted either messages or transcript, found both or neither of them"
        raise InvalidInputError(msg)
    if given.transcript is not None:
        return read_transcript(given.transcript)
    return [_message(item) for item in given.messages or ()]


def _message(item: SaidMessage) -> dict[str, object]:
    fields = item.model_dump(exclude_none=True)
    own_id = fields.pop("id", None)
    return fields if own_id is None else {**fields, "message_id": own_id}


async def revise(caller: Caller, given: ReviseArguments) -> IdAnswer:
    """Replace a memory by what holds now; the old one is kept, and found with `as_of`.

    What an agent makes of a text is no more trusted than that.
    """
    old = await caller.memory.get_memory(given.id, user_id=caller.user_id)
    trust = least_trusted([old.trust, TrustClass.ASSISTANT])
    new = await caller.memory.supersede_memory(given.id, given.content, user_id=caller.user_id, trust=trust)
    return IdAnswer(text=f"{new.memory_id} replaces {given.id}", id=new.memory_id, replaced=given.id)


async def forget(caller: Caller, given: ForgetArguments) -> ForgetAnswer:
    """Remove memories; by default only show which. An id that is not there refuses all of them."""
    ids = list(dict.fromkeys(given.ids))
    memories = [await caller.memory.get_memory(name, user_id=caller.user_id) for name in ids]
    if not given.dry_run:
        await _delete(caller, memories)
    heading = "Would be forgotten; call again with dry_run false:" if given.dry_run else "Forgotten:"
    text = found_text([hit_of_memory(item) for item in memories], max_chars=MAX_TEXT_CHARS, heading=heading)
    return ForgetAnswer(text=text, ids=ids, dry_run=given.dry_run)


async def _delete(caller: Caller, memories: list[Memory]) -> None:
    done: list[str] = []
    for memory in memories:
        try:
            with contextlib.suppress(MemoryNotFoundError):  # somebody else was first
                await caller.memory.delete_memory(memory.memory_id, user_id=caller.user_id)
        except ReMeError as exc:
            if not done:
                raise
            msg = f"forgotten are {', '.join(done)}; the others stay: {exc.message}"
            raise PartialFailureError(msg, done=done, failures=[exc]) from exc
        done.append(memory.memory_id)
