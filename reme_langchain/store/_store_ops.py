"""Operations of LangGraph, checked and put into the words of the port of items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TypeAlias

from langgraph.store.base import (
    NOT_PROVIDED,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)

from reme_core.errors import InvalidInputError
from reme_core.ports import (
    GetItems,
    ItemAddress,
    ItemCondition,
    ItemValue,
    ListItemNamespaces,
    Namespace,
    SearchItems,
    Vector,
)
from reme_core.schema import Scope, shown
from reme_langchain.store._json_values import copy_object, read_filter
from reme_langchain.store._namespaces import RuleSet

Fields: TypeAlias = tuple[str, ...] | None
"""Paths whose texts are embedded; none at all: nothing is; None: those of the store."""

_CACHED = 4096  # namespaces that were found to be such
_LONGEST_TTL = 4e9  # minutes, some 7,600 years: later than any date that Python has
_MOST = 1 << 61  # SQLite counts with 64 bits, and offset and limit are added up
ANY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search as it was asked for; without a query it is unranked."""

    prefix: Namespace
    conditions: tuple[ItemCondition, ...]
    query: str
    limit: int
    offset: int
    refresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """A listing of namespaces as it was asked for."""

    conditions: tuple[MatchCondition, ...]
    max_depth: int | None
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRequest:
    """An item to be written; its texts are embedded later."""

    address: ItemAddress
    value: ItemValue
    fields: Fields
    ttl_s: float | None


Write: TypeAlias = PutRequest | ItemAddress


@dataclass(slots=True)
class OperationPlan:
    """A batch, by kind; reads stand beside the place of their result. `owner`: the user whose run asks for it."""

    size: int = 0
    owner: Scope | None = None
    gets: list[tuple[int, ItemAddress]] = field(default_factory=list)
    searches: list[tuple[int, SearchRequest]] = field(default_factory=list)
    listings: list[tuple[int, ListRequest]] = field(default_factory=list)
    _writes: dict[tuple[Namespace, str], list[Write]] = field(default_factory=dict)

    @property
    def writes(self) -> list[Write]:
        """What is to be written, without what a later operation of the batch overwrites."""
        return [write for kept in self._writes.values() for write in kept]

    def write(self, write: Write) -> None:
        """Add a write; the last one of an address counts, and an item that is deleted first is a new one after."""
        address = write.address if isinstance(write, PutRequest) else write
        at = address.namespace, address.key
        if isinstance(write, ItemAddress):
            self._writes.pop(at, None)
            self._writes[at] = [write]
        else:
            earlier = [item for item in self._writes.get(at, ()) if isinstance(item, ItemAddress)]
            self._writes[at] = [*earlier, write]


class OpReader:
    """Checks operations; nothing of a batch is done before all of it was read."""

    def __init__(self, rules: RuleSet, ttl: TTLConfig | None) -> None:
        """Keep the rules and the default time to live."""
        self._rules = rules
        self._default_ttl = None if ttl is None else ttl.get("default_ttl")

    def read(self, ops: Iterable[object]) -> OperationPlan:
        """Return what to do.

        Raises:
            InvalidNamespaceError: A namespace that can't be one.
            TypeError: An argument of another type, or a value that JSON has no form for.
            InvalidInputError: An argument out of range, or an unknown operator; it is a ValueError.
        """
        plan = OperationPlan()
        for place, op in enumerate(ops):
            plan.size = place + 1
            if isinstance(op, GetOp):
                namespace = _namespace(op.namespace)
                if namespace:
                    plan.gets.append((place, self._address(namespace, op.key, refresh=bool(op.refresh_ttl))))
            elif isinstance(op, SearchOp):
                plan.searches.append((place, _search(op)))
            elif isinstance(op, PutOp):
                self._put(plan, op)
            elif isinstance(op, ListNamespacesOp):
                plan.listings.append((place, _listing(op)))
            else:
                _refuse(op)
        return plan

    def _put(self, plan: OperationPlan, op: PutOp) -> None:
        namespace = _namespace(op.namespace)
        if op.value is None:
            if namespace:
                plan.write(self._address(namespace, op.key))
            return
        if not namespace:
            msg = "a namespace can't be empty: give at least one label"
            raise InvalidNamespaceError(msg)
        address = self._address(namespace, op.key)
        value = copy_object(op.value, "value")
        plan.write(PutRequest(address=address, value=value, fields=_fields(op.index), ttl_s=self._ttl_s(op.ttl)))

    def _address(self, namespace: Namespace, key: object, *, refresh: bool = False) -> ItemAddress:
        if not isinstance(key, str):
            msg = f"key: wanted a str, found {shown(key)}"
            raise TypeError(msg)
        _check_text(key, "key", InvalidInputError)
        return ItemAddress(namespace=namespace, key=key, record=self._rules.record_at(namespace), refresh=refresh)

    def _ttl_s(self, ttl: object) -> float | None:
        minutes = self._default_ttl if ttl is NOT_PROVIDED else ttl
        return None if minutes is None else 60 * read_minutes(minutes, "ttl")


def check_ttl(ttl: object) -> None:
    """Refuse settings of times to live that can't be such (TypeError, InvalidInputError)."""
    if not isinstance(ttl, dict):
        msg = f"ttl: wanted a dict such as {{'default_ttl': 60}}, found {shown(ttl)}"
        raise InvalidInputError(msg)
    unknown = sorted(str(name) for name in set(ttl) - TTLConfig.__annotations__.keys())
    if unknown:
        msg = f"ttl: unknown settings {', '.join(unknown)}; there are {', '.join(TTLConfig.__annotations__)}"
        raise InvalidInputError(msg)
    for name in ("refresh_on_read", "omit_expired"):
        if not isinstance(ttl.get(name, False), bool):
            msg = f"ttl: {name}: wanted True or False, found {shown(ttl[name])}"
            raise InvalidInputError(msg)
    if ttl.get("default_ttl") is not None:
        read_minutes(ttl["default_ttl"], "ttl: default_ttl")


def read_minutes(minutes: object, what: str) -> float:
    """Return a number of minutes above 0 (TypeError, InvalidInputError)."""
    if isinstance(minutes, bool) or not isinstance(minutes, (int, float)):
        msg = f"{what}: wanted minutes as a number, or None, found {shown(minutes)}"
        raise TypeError(msg)
    if not 0 < minutes <= _LONGEST_TTL:
        msg = f"{what}: wanted minutes above 0 and up to {_LONGEST_TTL:.0e}, or None for never, found {shown(minutes)}"
        raise InvalidInputError(msg)
    return float(minutes)


def get_items(plan: OperationPlan, at: datetime, *, omit_expired: bool) -> GetItems:
    """Return the request that answers all gets of a batch."""
    return GetItems(addresses=[address for _, address in plan.gets], at=at, omit_expired=omit_expired)


def search_items(
    search: SearchRequest,
    rules: RuleSet,
    vector: Vector | None,
    at: datetime,
    *,
    omit_expired: bool,
    embedded_by: str | None,
) -> SearchItems:
    """Return the request that answers a search; `vector` is that of its query, or without a model words are sought."""
    return SearchItems(
        prefix=search.prefix,
        records=rules.places_under(search.prefix),
        vector=vector,
        embedded_by=embedded_by,
        text=search.query if embedded_by is None else "",
        conditions=search.conditions,
        limit=search.limit,
        offset=search.offset,
        refresh=search.refresh,
        omit_expired=omit_expired,
        at=at,
    )


def list_items(listing: ListRequest, rules: RuleSet, at: datetime, *, omit_expired: bool) -> ListItemNamespaces:
    """Return the request for the namespaces under what all that match begin with."""
    literals = [_literal(item.path) for item in listing.conditions if item.match_type == "prefix"]
    prefix = max(literals, key=len, default=())
    return ListItemNamespaces(prefix=prefix, records=rules.places_under(prefix), at=at, omit_expired=omit_expired)


def page_of(listing: ListRequest, namespaces: Iterable[Namespace]) -> list[Namespace]:
    """Return the namespaces that match, cut to `max_depth`, each once, in order of their labels; of these a page."""
    matching = (labels for labels in namespaces if all(_matches(item, labels) for item in listing.conditions))
    found = sorted({labels[: listing.max_depth] for labels in matching})
    return found[listing.offset : listing.offset + listing.limit]


def _matches(condition: MatchCondition, labels: Namespace) -> bool:
    path = condition.path
    if len(path) > len(labels):
        return False
    part = labels[: len(path)] if condition.match_type == "prefix" else labels[len(labels) - len(path) :]
    return all(wanted in (ANY, label) for wanted, label in zip(path, part, strict=True))


def _literal(path: Sequence[str]) -> Namespace:
    labels = tuple(path)
    return labels[: labels.index(ANY)] if ANY in labels else labels


def _search(op: SearchOp) -> SearchRequest:
    query: object = "" if op.query is None else op.query
    if not isinstance(query, str):
        msg = f"query: wanted a str or None, found {shown(query)}"
        raise TypeError(msg)
    return SearchRequest(
        prefix=_namespace(op.namespace_prefix),
        conditions=read_filter(op.filter),
        query=query,
        limit=_count(op.limit, "limit"),
        offset=_count(op.offset, "offset"),
        refresh=bool(op.refresh_ttl),
    )


def _listing(op: ListNamespacesOp) -> ListRequest:
    conditions = []
    for item in op.match_conditions or ():
        _check_match_type(item.match_type)
        path: object = item.path  # one label, where a str was given: nobody means its letters
        conditions.append(MatchCondition(item.match_type, _namespace((path,) if isinstance(path, str) else path)))
    return ListRequest(
        conditions=tuple(conditions),
        max_depth=None if op.max_depth is None else _count(op.max_depth, "max_depth"),
        limit=_count(op.limit, "limit"),
        offset=_count(op.offset, "offset"),
    )


def _check_match_type(given: object) -> None:
    if given not in ("prefix", "suffix"):
        msg = f"match_type: wanted 'prefix' or 'suffix', found {shown(given)}"
        raise InvalidInputError(msg)


def _namespace(given: object) -> Namespace:
    """Return a tuple of labels; a str is a sequence of texts as well, and nobody means its letters."""
    if not isinstance(given, (tuple, list)):
        msg = f"a namespace is a tuple of labels, found {shown(given)}: write ('users', user_id), or ('users',) for one"
        raise InvalidNamespaceError(msg)
    labels = tuple(given)
    if not all(type(label) is str for label in labels):
        labels = _plain_labels(labels)
    return _checked(labels)


def _plain_labels(labels: Sequence[object]) -> Namespace:
    """Return labels of subclasses of str, such as a StrEnum, as plain ones."""
    plain = []
    for label in labels:
        if not isinstance(label, str):
            msg = f"labels are str, found {shown(label)} ({type(label).__name__}): encode_label makes one of an id"
            raise InvalidNamespaceError(msg)
        plain.append(str.__str__(label))
    return tuple(plain)


@lru_cache(_CACHED)
def _checked(labels: Namespace) -> Namespace:
    validate_op_namespace(GetOp(labels, ""))
    for label in labels:
        _check_text(label, "a label", InvalidNamespaceError)
    return labels


def _check_text(text: str, what: str, error: Callable[[str], Exception]) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        msg = f"{what}: {shown(text)} holds a lone surrogate (half of a broken emoji): replace it"
        raise error(msg) from exc


def _count(given: object, what: str) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        msg = f"{what}: wanted an int, found {shown(given)}"
        raise TypeError(msg)
    if given < 0:
        msg = f"{what}: wanted 0 or more, found {given}"
        raise InvalidInputError(msg)
    return min(given, _MOST)


def _fields(index: object) -> Fields:
    if index is None:
        return None
    if index is False:
        return ()
    if isinstance(index, (list, tuple)) and all(isinstance(path, str) for path in index):
        return tuple(index)
    msg = f"index: wanted None, False or a list of paths, found {shown(index)}"
    raise TypeError(msg)


def _refuse(op: object) -> None:
    msg = f"wanted a GetOp, SearchOp, PutOp or ListNamespacesOp, found {shown(op)}"
    raise TypeError(msg)
