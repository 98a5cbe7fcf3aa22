"""Search debugger: a question with the parts of each score, what was left out and why; two questions side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from starlette.responses import Response

from reme_core.errors import InvalidInputError, ReMeError
from reme_core.schema import ExplainedHit, Explanation, RetrieveResult, hit_key
from reme_core.serve.failures import told_words
from reme_core.serve.inspect.pictures import Part, stacked
from reme_core.serve.inspect.view import View, whole

_SHOWN = 60
_CHARS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Something that was compared, as it is shown."""

    item: ExplainedHit
    parts: Sequence[Part]
    text: str
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question and its explained answer, or what was wrong with it."""

    query: str
    found: RetrieveResult | None = None
    explanation: Explanation = field(default_factory=Explanation)
    rows: Sequence[Row] = ()
    why: Row | None = None
    problem: str = ""


def _number(view: View, name: str) -> int | None:
    """Read a number of the address, None where it is not there (InvalidInputError)."""
    text = view.ask(name)
    number = whole(text)
    if text and number is None:
        msg = f"{name}: wanted a whole number, found {text[:40]!r}"
        raise InvalidInputError(msg)
    return number


async def search(view: View) -> Response:
    """Ask one question or two and show how the answers came about."""
    queries = [query for query in (view.ask("q"), view.ask("q2")) if query]
    asked = [await _ask(view, query) for query in queries]
    return view.page("search", asked=asked)


async def _ask(view: View, query: str) -> Asked:
    try:
        found = await view.memory.retrieve(
            query,
            **view.whose,
            limit=_number(view, "limit"),
            token_budget=_number(view, "budget"),
            as_of=view.ask("as_of") or None,
            memory_type=view.ask("type") or "auto",
            session_id=view.ask("session") or None,
            include_superseded=bool(view.ask("replaced")),
            explain=True,
            why_not=view.ask("why_not") or None,
        )
    except ReMeError as exc:
        return Asked(query=query, problem=told_words(exc))
    explanation = found.explanation
    if explanation is None:
        return Asked(query=query, found=found, problem="this retriever keeps no account of its ranking")
    shown = explanation.candidates[:_SHOWN]
    why = explanation.why_not.found if explanation.why_not is not None else None
    names = list(dict.fromkeys(name for item in (*shown, *([why] if why else [])) for name in item.parts))
    most = max((sum(map(abs, item.parts.values())) for item in shown), default=1.0)
    return Asked(
        query=query,
        found=found,
        explanation=explanation,
        rows=[_row(view, item, most, names) for item in shown],
        why=None if why is None else _row(view, why, most, names),
    )


def _row(view: View, item: ExplainedHit, most: float, names: Sequence[str]) -> Row:
    layer, _, name = hit_key(item.hit)
    if item.hit.reference is not None or layer == "summary":
        link = view.link("session", id=item.hit.session_id)
    else:
        link = view.link("memory" if layer == "memory" else "message", id=name)
    text = item.hit.memory if len(item.hit.memory) <= _CHARS else f"{item.hit.memory[:_CHARS]} […]"
    return Row(item=item, parts=stacked(item.parts, most, names), text=text, link=link)
