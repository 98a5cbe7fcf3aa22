"""Cut a ranking to a budget of tokens, without repetition."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reme_core.schema import LeftOut
from reme_core.text.segment import normalise_content, query_terms

# Words that stand between blanks: counting them in a text without blanks would take an anagram for a repetition.
_WORD = re.compile(r"\w+")
# A text below this many terms ("ok", "thanks") is in some other by chance: it is repetition only when the same.
_CONTAINED_TERMS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A text that may be taken, at its place of the ranking: `item` is the caller's own number for it."""

    item: int
    text: str
    tokens: int


def fill_budget(
    candidates: Iterable[Candidate],
    *,
    budget_tokens: int | None,
    limit: int | None = None,
    beside: Sequence[Candidate] = (),
    on_left_out: Callable[[Candidate, LeftOut], None] = lambda *_: None,
) -> list[Candidate]:
    """Take candidates from the top of a ranking while they fit a budget.

    A candidate that repeats one taken before is passed over: the same text up to case, blanks and outer punctuation,
    the same words in another order, or a text wholly contained in it. One that does not fit is passed over too, and
    shorter ones after it may be taken. What repeats a candidate of `beside`, taken elsewhere and from no part of this
    budget, is passed over as well.
    Candidates are read one by one, only as far as needed; `on_left_out` is told which are passed over, and why.

    Returns:
        What was taken, in the order of the ranking; its tokens never add up to more than `budget_tokens`.

    Raises:
        ValueError: A budget, a limit or a candidate's tokens are negative.
    """
    _check_bound("budget_tokens", budget_tokens)
    _check_bound("limit", limit)
    taken: list[Candidate] = []
    forms = [normalise_content(candidate.text) for candidate in beside]
    bags = {_bag(form) for form in forms}
    room = budget_tokens
    for candidate in candidates:
        if room == 0 or len(taken) == limit:
            break
        _check_bound("tokens of a candidate", candidate.tokens)
        if room is not None and candidate.tokens > room:
            on_left_out(candidate, LeftOut.BUDGET)
            continue
        form = normalise_content(candidate.text)
        bag = _bag(form)
        if _repeats(form, forms) or (len(bag) >= _CONTAINED_TERMS and bag in bags):
            on_left_out(candidate, LeftOut.REPETITION)
            continue
        taken.append(candidate)
        forms.append(form)
        bags.add(bag)
        if room is not None:
            room -= candidate.tokens
    return taken


def is_repetition(text: str, other: str) -> bool:
    """Tell whether `fill_budget` would pass over `text` where `other` is taken."""
    form, taken = normalise_content(text), normalise_content(other)
    bag = _bag(form)
    return _repeats(form, [taken]) or (len(bag) >= _CONTAINED_TERMS and bag == _bag(taken))


def _bag(form: str) -> tuple[str, ...]:
    return tuple(sorted(_WORD.findall(form)))


def _repeats(form: str, forms: list[str]) -> bool:
    if form in forms:
        return True
    return any(form in other for other in forms) and len(query_terms(form)) >= _CONTAINED_TERMS


def _check_bound(what: str, value: int | None) -> None:
    if value is not None and value < 0:
        msg = f"{what} must not be negative, found {value}"
        raise ValueError(msg)
