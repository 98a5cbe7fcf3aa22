"""Names of persons and things as they are compared, and relations by the words of a question."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from reme_core.retrieval import related_terms
from reme_core.schema import Relation
from reme_core.schema.relations import MAX_RELATIONS
from reme_core.text import query_terms

USER = "user"
"""The name of whom the memories belong to."""

_USER_NAMES = frozenset({USER, "self", "用户"})
_POSSESSIVE = re.compile(r"['’](?:s|S)?$")
_ENDS = ' \t"“”„«».,;:!?()[]{}。，、；：！？（）「」『』'
# Letters that "own" and "owner" have in common.
_BEGINNING = 3


@lru_cache(maxsize=1 << 13)
def name_key(name: str) -> str:
    """Return a name as it is compared; empty where nothing but signs is left of it."""
    text = " ".join(unicodedata.normalize("NFKC", name).casefold().split()).strip(_ENDS)
    text = _POSSESSIVE.sub("", text).removeprefix("the ").strip(_ENDS)
    return USER if text in _USER_NAMES else text


@lru_cache(maxsize=1 << 12)
def terms_of(text: str) -> frozenset[str]:
    """Return the terms of a name, a relation or a question."""
    return frozenset(query_terms(text))


def asked_by(words: Iterable[str], relations: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return of some relations those that terms of a question ask for, with these: as they are, or else nearly.

    "Owner" asks for what is owned, and "sister" for a brother where no sister is known.
    """
    own = frozenset(words)
    found = {text: own & terms_of(text) for text in relations}
    if not any(found.values()):
        found = {text: frozenset(word for word in own if _is_near(word, terms_of(text))) for text in found}
    return {text: asked for text, asked in found.items() if asked}


def _is_near(word: str, told: frozenset[str]) -> bool:
    """Tell whether a term means one of some others, or begins with one, or one of them with it."""
    if not told.isdisjoint(related_terms(word)):
        return True
    return any(
        min(len(word), len(term)) >= _BEGINNING and (word.startswith(term) or term.startswith(word)) for term in told
    )


def join_relations(
    old: Iterable[Relation], new: Iterable[Relation], *, content: str | None = None
) -> tuple[Relation, ...]:
    """Return the relations of both, each once, the new ones first, at most eight.

    Of the old ones those are left out of which the text that has come to stand there, `content`, names an end no more.
    """
    said = None if content is None else terms_of(content)
    kept = (item for item in old if said is None or all(_is_named(name, said) for name in (item.subject, item.object)))
    return distinct_relations((*new, *kept))[:MAX_RELATIONS]


def distinct_relations(relations: Iterable[Relation]) -> tuple[Relation, ...]:
    """Return each relation once, as it is told first; one memory may not have as many."""
    told: dict[tuple[str, str, str], Relation] = {}
    for item in relations:
        told.setdefault((name_key(item.subject), item.relation.casefold(), name_key(item.object)), item)
    return tuple(told.values())


def _is_named(name: str, said: frozenset[str]) -> bool:
    return name_key(name) == USER or not said.isdisjoint(terms_of(name))
