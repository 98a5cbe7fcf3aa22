"""Namespaces of a store: labels for any text, the rules that make some of them memories, and the way back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

from reme_core.errors import InvalidInputError
from reme_core.ports import ItemRecord, Namespace, RecordPlace
from reme_core.schema import MemoryType, Scope, make_scope, shown

_ESCAPED = re.compile(r"[%.\0*]")
_ESCAPE = re.compile(r"%(25|2E|00|2A)")
_EMPTY = "%"
_RESERVED, _RESERVED_LABEL = "langgraph", "%6Canggraph"


def encode_label(text: str | int) -> str:
    """Return the label of an id: `ann@example.com` becomes `ann@example%2Ecom`, and `""` a lone `%`.

    Different texts have different labels. An int is its decimal digits.

    Raises:
        InvalidInputError: It is neither a text nor an int, or it holds half of a surrogate pair.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        return str(int(text))
    if not isinstance(text, str):
        msg = f"a label is made of a str or an int, found {shown(text)}: give the id of the user"
        raise InvalidInputError(msg)
    check_encodable(text)
    if text == _RESERVED:
        return _RESERVED_LABEL
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text) or _EMPTY


def decode_label(label: str) -> str:
    """Return the text whose label this is.

    Raises:
        InvalidInputError: `encode_label` makes no such label of any text.
    """
    if isinstance(label, str):
        text = _decoded(label)
        if _is_encodable(text) and encode_label(text) == label:
            return text
    msg = f"{shown(label)} is not a label that encode_label makes: % stands only before 25, 2E, 00 and 2A, or alone"
    raise InvalidInputError(msg)


def check_encodable(text: str) -> None:
    """Refuse half of a surrogate pair, which no file keeps (InvalidInputError)."""
    if not _is_encodable(text):
        msg = f"{shown(text)} holds a lone surrogate (half of a broken emoji): replace it"
        raise InvalidInputError(msg)


def _is_encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decoded(label: str) -> str:
    if label == _EMPTY:
        return ""
    if label == _RESERVED_LABEL:
        return _RESERVED
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), label)


OWNER, KIND, SPACE = "{owner}", "{kind}", "{space}"
PLACEHOLDERS = frozenset({OWNER, KIND, SPACE})
KINDS = (
    MemoryType.IDENTITY,
    MemoryType.PERSONAL,
    MemoryType.PROCEDURAL,
    MemoryType.TOOL,
    MemoryType.SUMMARY,
)
KIND_NAMES = frozenset(KINDS)
OWN_SPACE = "default"


@dataclass(frozen=True, slots=True)
class NamespaceRule:
    """Says which namespaces are memories.

    A label of the pattern stands for itself, or is one of the placeholders `{owner}` (user id, needed), `{kind}`
    (memory type) and `{space}` (memory space), which match one label that `encode_label` can have made. Labels beyond
    the pattern are the topic. A namespace that can't be a scope, or whose label under `{kind}` is no memory type,
    does not match: what lies there are plain items.

    Attributes:
        pattern: The labels, from the root.
        kind: The memory type, where no label names it; left out it is `personal`.
        space: The memory space, where no label names it; `default` is that of the memory handed to the store.
        topics: Whether labels may follow the pattern; False: only namespaces of just these labels are memories.
    """

    pattern: Sequence[str]
    kind: str | None = field(default=None, kw_only=True)
    space: str = field(default=OWN_SPACE, kw_only=True)
    topics: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        """Check the pattern.

        Raises:
            InvalidInputError: It names no owner, a placeholder is only part of a label, unknown or there twice, or
                the argument says what a label says as well.
        """
        if isinstance(self.pattern, str) or not isinstance(self.pattern, Sequence):
            msg = f"pattern: wanted a tuple of labels such as ('memories', '{{owner}}'), found {shown(self.pattern)}"
            raise InvalidInputError(msg)
        object.__setattr__(self, "pattern", tuple(self.pattern))  # the documented way for a frozen dataclass
        for label in self.pattern:
            _check_label(label)
        if self.pattern.count(OWNER) != 1:
            msg = (
                f"pattern {self.pattern!r}: wanted one label '{{owner}}', or all users would share their memories; "
                "the label of the shared scope is '%'"
            )
            raise InvalidInputError(msg)
        for placeholder, given in ((KIND, self.kind is not None), (SPACE, self.space != OWN_SPACE)):
            if self.pattern.count(placeholder) + given > 1:
                msg = f"pattern {self.pattern!r}: {placeholder} is said twice; give it once, as label or as argument"
                raise InvalidInputError(msg)
        if self.pattern[0] == "langgraph":
            msg = f"pattern {self.pattern!r}: the root 'langgraph' belongs to LangGraph; choose another one"
            raise InvalidInputError(msg)
        if self.kind is not None:
            read_kind(self.kind)
        make_scope(self.space, shared=True)  # only the space is checked


def read_kind(kind: object) -> MemoryType:
    """Return the memory type of that name (InvalidInputError)."""
    if isinstance(kind, str) and kind in KIND_NAMES:
        return MemoryType(kind)
    msg = f"kind: wanted one of {', '.join(KINDS)}, found {shown(kind)}"
    raise InvalidInputError(msg)


def _check_label(label: object) -> None:
    if not isinstance(label, str) or not label or "." in label or "\0" in label:
        msg = f"pattern: wanted labels that are texts without '.' and NUL, found {shown(label)}"
        raise InvalidInputError(msg)
    check_encodable(label)
    if label not in PLACEHOLDERS and ("{" in label or "}" in label):
        msg = f"pattern: {label!r}: a placeholder is a whole label, one of {', '.join(sorted(PLACEHOLDERS))}"
        raise InvalidInputError(msg)


_ROOT = "memories"
_CACHED = 4096  # namespaces; a scope takes some 5 µs to build, a look-up 0.1


DEFAULT_RULES: tuple[NamespaceRule, ...] = (
    NamespaceRule((_ROOT, OWNER, KIND)),
    NamespaceRule((_ROOT, OWNER), kind="personal", topics=False),
)
"""`("memories", owner, kind, *topic)`, which `memory_namespace` builds, and langmem's `("memories", owner)`."""


def memory_namespace(
    owner: str | int | None = None,
    kind: str = "personal",
    *,
    shared: bool = False,
    topic: Sequence[str | int] = (),
) -> Namespace:
    """Return the namespace in which a user's memories lie under the default rule; ids are given as they are.

    Args:
        owner: The user id.
        kind: The memory type: identity, personal, procedural, tool or summary.
        shared: The shared scope of the memory space, in place of an owner.
        topic: Further labels, kept with the memories as metadata.

    Raises:
        InvalidInputError: Not a user id, none or both of owner and `shared=True`, not such a type, or a topic that is
            no sequence of labels.
    """
    if isinstance(topic, str):
        msg = f"topic: wanted a sequence of labels, found the str {shown(topic)}; put it into a tuple"
        raise InvalidInputError(msg)
    user_id = owner if owner is None else decode_label(encode_label(owner))
    label = encode_label(make_scope(OWN_SPACE, user_id, shared=shared).user_id)
    return (_ROOT, label, read_kind(kind).value, *(encode_label(item) for item in topic))


class RuleSet:
    """The rules of one store, which lead from namespaces to memories and back."""

    def __init__(self, rules: Sequence[NamespaceRule], memory_space: str) -> None:
        """Check that no namespace falls under two rules.

        Memories may: those that were not written as items lie where the first of their rules says.

        Raises:
            InvalidInputError: Two rules overlap, or something is no rule.
        """
        for rule in rules:
            _check_rule(rule)
        self._rules = tuple(rules)
        self._memory_space = memory_space
        for one, other in combinations(self._rules, 2):
            if _same_namespaces(one, other):
                msg = f"rules {one!r} and {other!r} overlap: leave one out, or tell them apart by a literal label"
                raise InvalidInputError(msg)
        self.record_at = lru_cache(_CACHED)(self._record_at)

    def places_under(self, prefix: Namespace) -> tuple[RecordPlace, ...]:
        """Return which memories lie under a prefix, those that were not written as items.

        A prefix that ends before `{space}` covers those of the store's own space.
        """
        places = []
        for rule in self._rules:
            found = self._bind(rule, prefix)
            if found is not None:
                space, owner, kind = found
                scope = _find_scope(space or self._memory_space, owner or "")
                if scope is not None:
                    wanted = KINDS if kind is None else (kind,)
                    kinds = tuple(item for item in wanted if self._home_of(scope.memory_space, item) is rule)
                    if kinds:
                        places.append(RecordPlace(memory_space=scope.memory_space, user_id=owner, memory_types=kinds))
        return tuple(places)

    def namespace_of(self, scope: Scope, kind: MemoryType) -> Namespace | None:
        """Return where memories of a scope and type lie; None if no rule maps them."""
        rule = self._home_of(scope.memory_space, kind)
        if rule is None:
            return None
        words = {OWNER: scope.user_id, SPACE: scope.memory_space, KIND: kind.value}
        return tuple(encode_label(words[label]) if label in words else label for label in rule.pattern)

    def _home_of(self, memory_space: str, kind: MemoryType) -> NamespaceRule | None:
        """Return the first rule that maps memories of a space and type."""
        for rule in self._rules:
            if kind in _kinds_of(rule) and (SPACE in rule.pattern or self._space_of(rule) == memory_space):
                return rule
        return None

    def _record_at(self, namespace: Namespace) -> ItemRecord | None:
        """Return whose memories lie in a namespace, and of which type; None if what lies there are plain items."""
        for rule in self._rules:
            length = len(rule.pattern)
            if len(namespace) > length and not rule.topics:
                continue
            found = self._bind(rule, namespace[:length]) if len(namespace) >= length else None
            if found is None:
                continue
            space, owner, kind = found
            if space is None or owner is None or kind is None:
                continue
            scope = _find_scope(space, owner)
            if scope is not None:
                topic = tuple(map(_text_of, namespace[length:]))
                is_home = self._home_of(scope.memory_space, kind) is rule
                return ItemRecord(scope=scope, memory_type=kind, topic=topic, is_home=is_home)
        return None

    def _bind(self, rule: NamespaceRule, labels: Namespace) -> tuple[str | None, str | None, MemoryType | None] | None:
        """Return space, owner and type that labels name, each None where they end before; None if they don't match."""
        if len(labels) > len(rule.pattern):
            return None
        bound: dict[str, str] = {}
        for wanted, label in zip(rule.pattern, labels, strict=False):
            if wanted not in PLACEHOLDERS:
                if wanted != label:
                    return None
                continue
            try:
                bound[wanted] = decode_label(label)
            except InvalidInputError:
                return None
        if KIND in bound and bound[KIND] not in KIND_NAMES:
            return None
        if KIND in rule.pattern:
            kind = MemoryType(bound[KIND]) if KIND in bound else None
        else:
            (kind,) = _kinds_of(rule)
        space = bound.get(SPACE) if SPACE in rule.pattern else self._space_of(rule)
        return space, bound.get(OWNER), kind

    def _space_of(self, rule: NamespaceRule) -> str:
        return self._memory_space if rule.space == OWN_SPACE else rule.space


def _kinds_of(rule: NamespaceRule) -> tuple[MemoryType, ...]:
    return KINDS if KIND in rule.pattern else (read_kind(rule.kind or MemoryType.PERSONAL),)


def _same_namespaces(one: NamespaceRule, other: NamespaceRule) -> bool:
    """Tell whether some namespace matches both; labels beyond the shorter pattern are its topic, if it has one."""
    shorter, longer = sorted((one, other), key=lambda rule: len(rule.pattern))
    if len(shorter.pattern) < len(longer.pattern) and not shorter.topics:
        return False
    return all(_same_label(a, b) for a, b in zip(one.pattern, other.pattern, strict=False))


def _same_label(one: str, other: str) -> bool:
    if one in PLACEHOLDERS and other in PLACEHOLDERS:
        return True
    if one in PLACEHOLDERS:
        one, other = other, one
    if other == KIND:
        return one in KIND_NAMES
    if other in PLACEHOLDERS:
        return True
    return one == other


def _text_of(label: str) -> str:
    """Return the text that a label of a topic was made of, or the label where metadata can't hold that."""
    try:
        text = decode_label(label)
    except InvalidInputError:
        return label
    return label if "\0" in text else text


def _find_scope(space: str, owner: str) -> Scope | None:
    try:
        return make_scope(space, owner or None, shared=not owner)
    except InvalidInputError:
        return None


def _check_rule(rule: object) -> None:
    if not isinstance(rule, NamespaceRule):
        msg = f"rules: wanted NamespaceRule objects, found {shown(rule)}"
        raise InvalidInputError(msg)
