"""Preview of a pasted conversation: what a model would make of it, beside what is known; nothing of it is kept."""

from __future__ import annotations

from starlette.responses import Response

from reme_core.errors import ReMeError
from reme_core.schema import ChangeKind, MemoryChange, SummaryPreview
from reme_core.serve.access import Right
from reme_core.serve.failures import status_of, told_words
from reme_core.serve.inspect.differences import Change, changes
from reme_core.serve.inspect.view import View, field
from reme_core.serve.mcp.transcript import read_transcript


async def form(view: View) -> Response:
    """Ask for a conversation."""
    return _page(view)


async def preview(view: View) -> Response:
    """Tell what would be remembered. It changes nothing, so it needs no `--write`; it costs, so it takes that right."""
    view.principal.require(Right.WRITE)
    memory = view.memory if view.previewing is None else view.previewing.in_space(view.scope.memory_space)
    try:
        messages = read_transcript(field(view.form, "text"))
        return _page(view, await memory.preview_summary(messages, **view.whose))
    except ReMeError as exc:
        return _page(view, problem=told_words(exc), status=status_of(exc))


def _page(view: View, found: SummaryPreview | None = None, *, problem: str = "", status: int = 200) -> Response:
    return view.page(
        "preview",
        status,
        found=found,
        changed=[] if found is None else _shown(found),
        problem=problem,
        has_model=(view.previewing or view.memory).llm is not None,
        asks=Right.WRITE in view.principal.rights,
    )


def _shown(found: SummaryPreview) -> list[tuple[MemoryChange, list[Change]]]:
    """Return each change with its difference; what replaces a memory is told with that one alone."""
    replacing = {item.replaced_by.memory_id for item in found.changes if item.replaced_by is not None}
    return [
        (item, changes(item.before, item.replaced_by or item.after))
        for item in found.changes
        if item.kind is not ChangeKind.ADDED or item.memory_id not in replacing
    ]
