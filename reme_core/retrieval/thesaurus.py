"""Words of everyday English that stand for one another, and kinds with their members.

A question and the text that answers it often use different words of one meaning ("job", "work"), or the question names
the kind of what the text names ("which sport", "surfing"). The groups in `thesaurus.txt` are general English, of the
size of a phrase book's index, written without regard to any one data set; a list that grows towards a data set would
measure itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from reme_core.text.segment import terms

_FILE = "thesaurus.txt"


@lru_cache(maxsize=1 << 12)
def related_terms(term: str) -> tuple[str, ...]:
    """List the terms that a query's term may stand for, itself left out, in alphabetical order; often none.

    Takes and gives index terms, as `terms` makes them. Only words that begin like the term are stemmed, not the lists:
    stemming keeps the first two letters.
    """
    groups = _groups()
    alike = [word for word in groups.by_beginning.get(term[:2], ()) if term in terms(word)]
    members = {member for word in alike for number in groups.of_word[word] for member in groups.members[number]}
    return tuple(sorted({found for member in members for found in terms(member)} - {term}))


@dataclass(frozen=True, slots=True)
class _Groups:
    """Groups of words as written; the groups of each word that may stand for others; these words by beginning."""

    members: tuple[tuple[str, ...], ...]
    of_word: Mapping[str, tuple[int, ...]]
    by_beginning: Mapping[str, tuple[str, ...]]


@lru_cache(maxsize=1)
def _groups() -> _Groups:
    members: list[tuple[str, ...]] = []
    of_word: dict[str, list[int]] = {}
    text = resources.files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        kind, colon, listed = line.partition(":")
        heads = kind.split()
        for head in heads:
            of_word.setdefault(head, []).append(len(members))
        members.append(tuple(listed.split() if colon else heads))
    beginnings: dict[str, list[str]] = {}
    for word in of_word:
        beginnings.setdefault(word[:2], []).append(word)
    return _Groups(
        members=tuple(members),
        of_word={word: tuple(numbers) for word, numbers in of_word.items()},
        by_beginning={beginning: tuple(words) for beginning, words in beginnings.items()},
    )
