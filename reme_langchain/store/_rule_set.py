"""The rules of a store, which lead from namespaces to memories and back."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

from reme_core.errors import InvalidInputError
from reme_core.ports import ItemRecord, Namespace, RecordPlace
from reme_core.schema import MemoryType, Scope, make_scope, shown
from reme_langchain.store._namespace_labels import decode_label, encode_label
from reme_langchain.store._namespace_rule import (
    KIND,
    KIND_NAMES,
    KINDS,
    OWN_SPACE,
    OWNER,
    PLACEHOLDERS,
    SPACE,
    NamespaceRule,
    read_kind,
)

_ROOT = "memories"
_CACHED = 4096  # namespaces; a scope takes some 5 µs to build, a look-up 0.1


DEFAULT_RULES: tuple[NamespaceRule, ...] = (NamespaceRule((_ROOT, OWNER, KIND)),)
"""`("memories", owner, kind, *topic)`: the namespaces that `memory_namespace` builds."""


def memory_namespace(owner: str | int, kind: str = "personal", *, topic: Sequence[str | int] = ()) -> Namespace:
    """Return the namespace in which a user's memories lie under the default rule; ids are given as they are.

    Args:
        owner: The user id; "" is the shared scope.
        kind: The memory type: identity, personal, procedural, tool or summary.
        topic: Further labels, kept with the memories as metadata.

    Raises:
        InvalidInputError: Not a user id, not such a type, or a topic that is no sequence of labels.
    """
    if isinstance(topic, str):
        msg = f"topic: wanted a sequence of labels, found the str {shown(topic)}; put it into a tuple"
        raise InvalidInputError(msg)
    label = encode_label(owner)
    make_scope(OWN_SPACE, decode_label(label))
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
    """Tell whether some namespace matches both; labels beyond the shorter pattern are its topic, any at all."""
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
        return make_scope(space, owner)
    except InvalidInputError:
        return None


def _check_rule(rule: object) -> None:
    if not isinstance(rule, NamespaceRule):
        msg = f"rules: wanted NamespaceRule objects, found {shown(rule)}"
        raise InvalidInputError(msg)
