"""Whom a query names, and whom of them it is about."""

import re
from collections.abc import Mapping

_WORD = re.compile(r"[^\W_]+")
# Names that say a role: every conversation with a model has them, and "the user" names nobody.
_ROLES = frozenset({"user", "assistant", "system", "tool", "human", "ai", "bot", "me", "you"})
# Words between two names that make both of them subjects.
_JOINED = re.compile(r"\b(?:and|or)\b|[&,、和与與跟及とや와과]", re.IGNORECASE)


# Words by which a question speaks of who asks, in the languages that `dates` and `is_question` read.
_FIRST_PERSON = re.compile(
    r"\b(?:I|i|[Mm]y|[Mm]e|[Mm]ine|[Mm]yself|[Ww]e|[Oo]ur|[Oo]urs)\b"  # "us" is a country as well
    "|我(?!慢)|咱|俺|私(?=[はがのもをにと、])|僕|わたし|ぼく|(?<![가-힣])(?:나는|나의|내가|내|저는|제가|저의|제|우리)(?![가-힣])"
)

_SECOND_PERSON = re.compile(r"\b[Yy]ou(?:r|rs)?\b|你|您|君|あなた|당신|너")


def speaks_of_two(query: str) -> bool:
    """Tell whether a query speaks of who asks or of who is asked: it may want help, not facts about others."""
    return bool(_FIRST_PERSON.search(query) or _SECOND_PERSON.search(query))


def first_person(query: str) -> int | None:
    """Return the place in a query where it first speaks of who asks ("I", "my", "我"), None where it doesn't."""
    found = _FIRST_PERSON.search(query)
    return None if found is None else found.start()


def named_speakers(query: str, names: Mapping[str, int]) -> list[tuple[int, str]]:
    """Find the speakers whose name, or first word of it, stands in a query, as pairs (place in the query, name).

    Ordered by place. Words are compared with case ("Will" names nobody in "will she"), or without where the query has
    no capital letter. Names in scripts without blanks are found inside the text. Names of roles never count.
    """
    places: dict[str, int] = {}
    lower = query.islower()
    for match in _WORD.finditer(query):
        places.setdefault(match.group(), match.start())
    found = []
    for name in names:
        if not name or name.lower() in _ROLES:
            continue
        if not name.isascii() and name in query:
            found.append((query.index(name), name))
        elif first := _WORD.match(name):
            word = first.group().lower() if lower else first.group()
            if word in places:
                found.append((places[word], name))
    return sorted(found)


def subject(query: str, named: list[tuple[int, str]]) -> str | None:
    """Name the speaker whose messages a query asks for, from its `named_speakers`.

    The only one, or the first of several ("What did Ann tell Bob?") unless the first two are joined ("Ann and Bob").
    """
    if not named:
        return None
    (first, name), *others = named
    if others and (others[0][0] == first or _JOINED.search(query[first + len(name) : others[0][0]])):
        return None
    return name
