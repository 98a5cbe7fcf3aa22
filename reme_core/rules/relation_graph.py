"""A graph of the relations that memories tell, by normalised names; aliases are one name. Plain values, without I/O.

Names are one where they differ in case, blanks, signs at their ends or a possessive ending; where a memory says that
one is also called the other, unless it is so of two who share a first word; and where one is the first word of exactly
one fuller name ("Melanie", "Melanie Reed").
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeAlias, TypeVar

from reme_core.retrieval import first_person
from reme_core.rules.relation_names import USER, asked_by, name_key, terms_of
from reme_core.schema import Relation
from reme_core.schema.relations import MAX_NAME_CHARS

K = TypeVar("K", bound=Hashable)
Names: TypeAlias = frozenset[str]
"""The normalised names of one person or thing; none: it is not known."""

# The prompt of the extraction names the first one; the others are what people write by hand.
_ALIASES = frozenset({"also called", "also known as", "nickname of"})
_OWNER = re.compile(r"(?s)(.+)['’]s? (.+)")
# A name has at most so many words in a question.
_MOST_WORDS = 4
_MOST_NEAR_NAMES = 3
# From a question to so many names with each step; one that leads to more asks for all of a kind, as words find it.
_MOST_REACHED = 8
# "Who owns the place where Ann's sister works?" takes three.
_HOPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge(Generic[K]):
    """A relation seen from one of its ends.

    Attributes:
        key: Of the memory that tells it.
        relation: As it is told.
        asked: The terms of a question that ask for it, where edges were asked for by these.
        other: The normalised name of the other end.
        is_forward: Whether it is told from this end to the other one.
    """

    key: K
    relation: Relation
    asked: frozenset[str] = frozenset()
    other: str
    is_forward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedName(Generic[K]):
    """A name that a question describes by relations ("Ann's sister"), or by another name of it.

    Attributes:
        names: How it is called.
        words: The terms of the question that lead to it.
        key: Of the memory that tells the last step; None for what the question names itself.
    """

    names: Names
    words: frozenset[str]
    key: K | None = None


class RelationGraph(Generic[K]):
    """Relations by the keys of the memories that tell them; calls say by `holds` which of these are meant."""

    def __init__(self) -> None:
        """Start empty."""
        self._told: dict[K, Sequence[Relation]] = {}
        self._ends: dict[str, dict[str, dict[K, None]]] = {}
        self._fuller: dict[str, set[str]] = {}

    def __len__(self) -> int:
        """The number of memories that tell relations."""
        return len(self._told)

    def add(self, key: K, relations: Sequence[Relation]) -> None:
        """Add what a memory tells, whose key is new."""
        named = [item for item in relations if name_key(item.subject) and name_key(item.object)]
        if named:
            self._told[key] = named
        for relation in named:
            for name in (name_key(relation.subject), name_key(relation.object)):
                self._ends.setdefault(name, {}).setdefault(relation.relation, {})[key] = None
                if " " in name:
                    self._fuller.setdefault(name.split()[0], set()).add(name)

    def remove(self, keys: Iterable[K]) -> None:
        """Remove what memories tell; keys that are not there are passed over."""
        for key in keys:
            for relation in self._told.pop(key, ()):
                for name in (name_key(relation.subject), name_key(relation.object)):
                    self._remove_end(name, relation.relation, key)

    def _remove_end(self, name: str, relation: str, key: K) -> None:
        by_relation = self._ends.get(name, {})
        by_relation.get(relation, {}).pop(key, None)
        if not by_relation.get(relation):
            by_relation.pop(relation, None)
        if not by_relation and self._ends.pop(name, None) is not None and " " in name:
            self._fuller[name.split()[0]].discard(name)

    def find(self, name: str, holds: Callable[[K], bool]) -> Names:
        """Return all names of whom one means: a name, or a description such as "Ann's sister" that fits one alone."""
        key = name_key(name)
        if self._known(key):
            return self.names_of(key, holds)
        described = _OWNER.fullmatch(name) if len(name) <= MAX_NAME_CHARS else None
        if described is None:
            return frozenset()
        owner, wanted = self.find(described[1], holds), terms_of(described[2])
        found = {self.names_of(edge.other, holds) for edge in self.edges(owner, holds, asked=wanted)}
        return found.pop() if len(found) == 1 else frozenset()

    def names_of(self, name: str, holds: Callable[[K], bool]) -> Names:
        """Return a name, normalised, with all that are the same."""
        names: list[str] = [name]
        for one in names:  # grows meanwhile
            others = dict.fromkeys((*self._called(one, holds), *self._first_and_full(one)))
            names += [other for other in others if other not in names]
        return frozenset(names)

    def near_names(self, name: str) -> tuple[str, ...]:
        """Return names that are written nearly alike, nearest first."""
        near = difflib.get_close_matches(name_key(name), self._ends, n=_MOST_NEAR_NAMES)
        return tuple(self.spelled(frozenset({found})) for found in near)

    def spelled(self, names: Names) -> str:
        """Return the name of the most words, or else that most memories use, as one writes it; `user` for the user."""
        if USER in names:
            return USER
        fullest = max(names, key=lambda name: (name.count(" "), len(self._keys_of(name)), name))
        told = (relation for key in self._keys_of(fullest) for relation in self._told[key])
        written = (name for relation in told for name in (relation.subject, relation.object))
        return next((name for name in written if name_key(name) == fullest), fullest)

    def others_of(self, names: Names) -> tuple[str, ...]:
        """Return the names, but the one that is `spelled`, as memories write them."""
        first = self.spelled(names)
        told = {self.spelled(frozenset({name})) for name in names if name in self._ends}
        return tuple(sorted(told - {first}))

    def edges(
        self, names: Names, holds: Callable[[K], bool], *, asked: Collection[str] | None = None
    ) -> Iterator[Edge[K]]:
        """Give the relations that end at a name, in the order they came; with `asked` those that one of the terms asks.

        That one is called so or so is no relation of two.
        """
        for name in sorted(names):
            texts = [text for text in self._ends.get(name, {}) if text.casefold() not in _ALIASES]
            wanted = dict.fromkeys(texts, frozenset[str]()) if asked is None else asked_by(asked, texts)
            for text, terms in wanted.items():
                for edge in self._edges_of(name, text, terms):
                    if edge.other not in names and holds(edge.key):
                        yield edge

    def _edges_of(self, name: str, text: str, asked: frozenset[str] = frozenset()) -> Iterator[Edge[K]]:
        for key in self._ends[name][text]:
            for relation in self._told[key]:
                subject, target = name_key(relation.subject), name_key(relation.object)
                if relation.relation == text and name in (subject, target):
                    is_forward = name == subject
                    other = target if is_forward else subject
                    yield Edge(key=key, relation=relation, asked=asked, other=other, is_forward=is_forward)

    def path(self, first: Names, second: Names, holds: Callable[[K], bool], *, most: int) -> list[Edge[K]] | None:
        """Return the shortest chain of at most so many relations from one name to another; None: there is none."""
        seen = set(first)
        ways: list[tuple[Names, list[Edge[K]]]] = [(first, [])]
        for _ in range(most):
            further: list[tuple[Names, list[Edge[K]]]] = []
            for names, way in ways:
                for edge in self.edges(names, holds):
                    if edge.other in seen:
                        continue
                    others = self.names_of(edge.other, holds)
                    if not others.isdisjoint(second):
                        return [*way, edge]
                    seen |= others
                    further.append((others, [*way, edge]))
            if not further:
                break
            ways = further
        return None

    def reached(self, question: str, holds: Callable[[K], bool]) -> list[ReachedName[K]]:
        """Return the names that a question speaks of, then those that its words lead to along up to three relations.

        "Where does Ann's sister work?" leads from Ann along "sister of"; without a word for it no relation is followed.
        """
        words, level = terms_of(question), list[ReachedName[K]]()
        for name, written in self._named_in(question):
            level.append(ReachedName(names=self.names_of(name, holds), words=written))
        found, seen = list(level), {name for item in level for name in item.names}
        for _ in range(_HOPS):
            further: list[ReachedName[K]] = []
            for item in level:
                room = _MOST_REACHED - len(further)
                edges = self.edges(item.names, holds, asked=words - item.words)
                for edge in islice((edge for edge in edges if edge.other not in seen), room):
                    names = self.names_of(edge.other, holds)
                    seen |= names
                    further.append(ReachedName(names=names, words=item.words | edge.asked, key=edge.key))
            found, level = found + further, further
        return found

    def _known(self, name: str) -> bool:
        return name in self._ends or len(self._fuller.get(name, ())) == 1

    def _called(self, name: str, holds: Callable[[K], bool]) -> list[str]:
        """Return the other names of a name; none where it is that of two, such as Ann Lee and Ann Berg."""
        texts = [text for text in self._ends.get(name, {}) if text.casefold() in _ALIASES]
        others = {edge.other for text in texts for edge in self._edges_of(name, text) if holds(edge.key)}
        firsts = [other.split()[0] for other in others if " " in other]
        return sorted(others) if " " in name or len(firsts) == len(set(firsts)) else []

    def _first_and_full(self, name: str) -> Iterator[str]:
        """Give the one fuller name that begins with a name, or the first word of one that alone begins so."""
        first = name.split()[0] if name else ""
        fuller = self._fuller.get(first, set())
        others = (fuller if name == first else {first} & self._ends.keys()) if len(fuller) == 1 else set()
        for other in others:
            # Two that stand in a relation are two: Ann and Ann Lee, her mother.
            if not self._are_related(name, other):
                yield other

    def _are_related(self, name: str, other: str) -> bool:
        both = self._keys_of(name).keys() & self._keys_of(other)
        ends = ({name_key(told.subject), name_key(told.object)} for key in both for told in self._told[key])
        return {name, other} in ends

    def _keys_of(self, name: str) -> dict[K, None]:
        return {key: None for keys in self._ends.get(name, {}).values() for key in keys}

    def _named_in(self, question: str) -> Iterator[tuple[str, frozenset[str]]]:
        """Give the known names that stand in a question, longest first at each place, with their terms."""
        words = [name_key(word) for word in question.split()]
        place = 0
        while place < len(words):
            sizes = range(min(_MOST_WORDS, len(words) - place), 0, -1)
            runs = ((size, " ".join(words[place : place + size])) for size in sizes)
            size, name = next(((size, run) for size, run in runs if terms_of(run) and self._known(run)), (1, ""))
            if name:
                yield name, terms_of(name)
            place += size
        if first_person(question) is not None and USER in self._ends:
            yield USER, frozenset()
        if not question.isascii():
            folded = question.casefold()
            for name in self._ends:
                if not name.isascii() and name in folded and name not in words:
                    yield name, terms_of(name)
