"""Acts of the inspector: each is shown first, with the difference that it makes, and done when confirmed."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from reme_core.errors import ConflictError, InvalidInputError, MemoryNotFoundError, RunNotFoundError
from reme_core.ports import EventQuery
from reme_core.remember.memory_editor import Editor, undo_run
from reme_core.schema import Event, Memory
from reme_core.serve.access import Right
from reme_core.serve.inspect.differences import CHARS_IN_LIST, Change, changes
from reme_core.serve.inspect.memory_pages import find
from reme_core.serve.inspect.view import View, field, whole
from reme_core.steps import user_input as inputs
from reme_core.steps.distillation import run_events

_EVENTS = 1000
_SHOWN = 50


async def edit(view: View) -> Response:
    """Tell the same fact better."""
    view.require(Right.WRITE)
    item, content = await _asked(view), field(view.form, "content")
    after = item.model_copy(update={"content": content, "when_to_use": view.form.get("when_to_use", "").strip()})
    if not _is_confirmed(view):
        return _preview(view, "Edit this memory", [(item, changes(item, after))])
    await _editor(view).update(
        view.scope,
        item.memory_id,
        {"content": content, "when_to_use": after.when_to_use},
        expected_revision=_revision(view),
        reason=_reason(view),
        at=view.memory.clock.now(),
    )
    return view.go(view.link("memory", id=item.memory_id))


async def supersede(view: View) -> Response:
    """Say what holds now in place of a memory."""
    view.require(Right.WRITE)
    item, content = await _asked(view), field(view.form, "content")
    since = view.form.get("valid_from", "").strip() or None
    if not _is_confirmed(view):
        after = item.model_copy(update={"content": content})
        words = "The old memory is kept, closed at that time, and found for times before it."
        return _preview(view, "Replace this memory", [(item, changes(item, after))], words)
    _check_revision(view, item)
    given = {"content": content, "valid_from": since}
    newer = await _editor(view).supersede(
        view.scope, item.memory_id, given, reason=_reason(view), at=view.memory.clock.now()
    )
    return view.go(view.link("memory", id=newer.memory_id))


async def forget(view: View) -> Response:
    """Delete a memory; its history stays, and undo brings it back."""
    view.require(Right.WRITE)
    item = await _asked(view)
    if not _is_confirmed(view):
        words = "It is found no more. Its history stays, and undoing the run brings it back."
        return _preview(view, "Forget this memory", [(item, changes(item, None))], words)
    _check_revision(view, item)
    await _editor(view).delete(view.scope, item.memory_id, reason=_reason(view), at=view.memory.clock.now())
    return view.go(view.link("memory", id=item.memory_id))


async def erase(view: View) -> Response:
    """Delete a memory with its history, and clear the store of both; answer with the certificate."""
    view.require(Right.ADMIN)
    memory_id = field(view.form, "id")
    events = await _events(view, memory_id)
    item = await find(view, memory_id)
    if item is None and not events:
        raise MemoryNotFoundError([memory_id])
    state = item or events[-1].before
    if not _is_confirmed(view):
        words = (
            "Text and history go for good, in the store and its pages: nothing brings them back. "
            "The messages that it comes from stay, and so do other memories that say the same."
        )
        shown = [(state, changes(state, None))] if state is not None else []
        return _preview(view, "Erase this memory for good", shown, words)
    if item is not None:
        _check_revision(view, item)
    await view.memory.delete_memory(memory_id, **view.whose, reason="erased in the inspector", erase=True)
    left = len(await _events(view, memory_id))
    return view.page(
        "certificate",
        heading="Erased",
        rows=[
            ("memory", memory_id),
            ("user", view.scope.user_id),
            ("space", view.scope.memory_space),
            ("erased at", f"{view.memory.clock.now():%Y-%m-%d %H:%M:%S} UTC"),
            ("changes in its history that went too", str(len(events))),
            ("looked for again", f"the memory is {'gone' if await find(view, memory_id) is None else 'there'}"),
            ("changes left", str(left)),
        ],
    )


async def undo(view: View) -> Response:
    """Take a run back."""
    view.require(Right.WRITE)
    run_id = field(view.form, "id")
    events = await run_events(view.memory.store, view.scope, run_id)
    if not events:
        raise RunNotFoundError([run_id])
    if not _is_confirmed(view):
        first = {event.memory_id: event.before for event in reversed(events)}
        last = {event.memory_id: event.after for event in events}
        shown = [
            (last[name] or first[name], changes(last[name], first[name], CHARS_IN_LIST)) for name in list(last)[:_SHOWN]
        ]
        more = f" Of {len(last)} memories the first {_SHOWN} are shown." if len(last) > _SHOWN else ""
        words = f"Each memory becomes again what it was before the run.{more}"
        return _preview(view, "Undo this run", shown, words)
    at, actor = view.memory.clock.now(), _person(view)
    done = await undo_run(view.memory.store, view.memory.resting_embedder, view.scope, run_id, at=at, actor=actor)
    return view.go(view.link("run", id=done.undo_run_id))


async def retry_job(view: View) -> Response:
    """Have a job tried again."""
    view.require(Right.WRITE)
    await view.memory.retry_job(field(view.form, "id"), **view.whose)
    return view.go(view.link("jobs"))


async def drop_job(view: View) -> Response:
    """Give a job up."""
    view.require(Right.ADMIN)
    job_id = field(view.form, "id")
    if not _is_confirmed(view):
        return _preview(view, "Give this job up", [], "What it was to make is not made. Its messages stay.")
    await view.memory.drop_job(job_id, **view.whose)
    return view.go(view.link("jobs"))


async def delete_user(view: View) -> Response:
    """Delete everything of the user: first only told how much that is, then confirmed by the name."""
    view.require(Right.ADMIN)
    user_id = view.scope.user_id
    if not _is_confirmed(view):
        return view.page("delete_user", counts=await view.memory.stats(**view.whose))
    if view.form.get("name") != user_id:
        msg = f"name: wanted {user_id!r} to confirm that everything of this user goes"
        raise InvalidInputError(msg)
    erased = await view.memory.delete_all_memories(**view.whose)
    rows = [("user", user_id), ("space", view.scope.memory_space)]
    rows += [("erased at", f"{view.memory.clock.now():%Y-%m-%d %H:%M:%S} UTC")]
    rows += [(name.replace("_", " "), str(value)) for name, value in erased.items() if value not in ({}, [], (), None)]
    return view.page("certificate", heading="Everything of this user is erased", rows=rows)


def _is_confirmed(view: View) -> bool:
    return view.form.get("confirmed") == "yes"


def _preview(
    view: View, heading: str, shown: Sequence[tuple[Memory | None, Sequence[Change]]], words: str = ""
) -> Response:
    """Show what an act would change, and a form that does it."""
    kept = {name: value for name, value in view.form.items() if name not in {"csrf", "confirmed", "user"}}
    revision = shown[0][0].revision if shown and shown[0][0] is not None else 0
    return view.page(
        "confirm",
        heading=heading,
        shown=shown,
        words=words,
        fields={**kept, "revision": kept.get("revision") or str(revision)},
        action=view.request.url.path,
    )


async def _asked(view: View) -> Memory:
    return await view.memory.get_memory(field(view.form, "id"), **view.whose)


async def _events(view: View, memory_id: str) -> list[Event]:
    return await view.memory.store.events(view.scope, EventQuery(memory_id=memory_id, limit=_EVENTS))


def _revision(view: View) -> int:
    return whole(field(view.form, "revision")) or 0


def _check_revision(view: View, item: Memory) -> None:
    """Refuse to change what is no longer what was shown (ConflictError)."""
    if item.revision != _revision(view):
        msg = f"memory {item.memory_id!r} was changed since it was shown: look at it again"
        raise ConflictError(msg)


def _reason(view: View) -> str:
    said = inputs.read_text(view.form.get("reason", "").strip(), "reason")
    return f"in the inspector: {said}" if said else "in the inspector"


def _editor(view: View) -> Editor:
    """Return what writes in the name of the person who is signed in."""
    memory = view.memory
    return Editor(store=memory.store, embedder=memory.resting_embedder, start=memory.start_waiting, actor=_person(view))


def _person(view: View) -> str:
    """Return the actor of what is done here: who is signed in, whosever memory it is; programs are no `user NAME`."""
    key = "" if view.caller.key_id is None else f" (key {view.caller.key_id})"
    return f"user {view.caller.scope.user_id}{key}"
