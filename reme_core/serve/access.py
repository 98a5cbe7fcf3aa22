"""Access: who calls, what they may do, and the keys that say so.

A key maps a token to one user of one memory space and to rights. Tokens are shown once; the store keeps their SHA-256,
as items of a space of its own that belong to the key's user: erasing the user revokes the keys.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, ValidationError

from reme_core.errors import CorruptDataError, InvalidInputError, NotFoundError, ReMeError
from reme_core.ports import Clock, GetItems, ItemAddress, PutItem, SearchItems, Store, WriteItems
from reme_core.schema import Scope, make_scope, shown
from reme_core.steps.costs import SERVICE_SPACE

TOKEN_PREFIX = "reme_"  # noqa: S105  # the beginning of each, no token
"""Each token begins so: what does not is somebody else's key, such as that of a model's endpoint."""

_KEYS = ("access-keys",)
_MAX_KEYS = 100_000
_SHOWN_DIGITS = 12


class Right(StrEnum):
    """What a key allows: reading, writing, looking after the service, and naming the user by `X-Reme-User`."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
    ACT_AS = "act_as"


DEFAULT_RIGHTS = frozenset({Right.READ, Right.WRITE})


class UnauthorizedError(ReMeError):
    """No key, or one that is not known here."""


class ForbiddenError(ReMeError):
    """A key that doesn't allow this."""


class KeyNotFoundError(NotFoundError):
    """No access key has this id."""

    noun = "access key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who calls: the scope of all that is touched, and what may be done there.

    Attributes:
        scope: The memory space and the user.
        rights: What is allowed.
        key_id: The key, None for a caller of this machine who needs none.
    """

    scope: Scope
    rights: frozenset[Right] = DEFAULT_RIGHTS
    key_id: str | None = None

    def require(self, right: Right) -> None:
        """Refuse a caller without this right (ForbiddenError)."""
        if right not in self.rights:
            msg = f"this key has no right to {right}: it may {', '.join(sorted(self.rights)) or 'nothing'}"
            raise ForbiddenError(msg)

    def act_as(self, user_id: str) -> Principal:
        """Return the caller as a user of the same space; as another one with that right alone.

        Raises:
            ForbiddenError: The right is missing.
            InvalidInputError: That is no user.
        """
        if user_id == self.scope.user_id:
            return self
        self.require(Right.ACT_AS)
        if not user_id.strip():
            msg = "X-Reme-User is empty: name a user, or leave it out"
            raise InvalidInputError(msg)
        return replace(self, scope=make_scope(self.scope.memory_space, user_id))


class AccessKey(BaseModel):
    """A key as it is kept, without its token."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key_id: str
    memory_space: str
    user_id: str
    rights: frozenset[Right]
    note: str = ""
    created_at: datetime

    @property
    def principal(self) -> Principal:
        """Who calls with this key."""
        return Principal(scope=make_scope(self.memory_space, self.user_id), rights=self.rights, key_id=self.key_id)


@dataclass(frozen=True, slots=True)
class AccessKeys:
    """The keys of a store. A revoked one is refused from the next request on, in every process."""

    store: Store
    clock: Clock

    async def add(self, scope: Scope, rights: Sequence[str], *, note: str = "") -> tuple[str, AccessKey]:
        """Make a key; return its token, which is shown nowhere again, and the key (InvalidInputError)."""
        if scope.is_shared:
            msg = "a key is of one user: name the user, not the shared scope"
            raise InvalidInputError(msg)
        token = TOKEN_PREFIX + secrets.token_urlsafe(32)
        key = AccessKey(
            key_id=_digest(token)[:_SHOWN_DIGITS],
            memory_space=scope.memory_space,
            user_id=scope.user_id,
            rights=_read_rights(rights),
            note=note,
            created_at=self.clock.now(),
        )
        put = PutItem(address=_address(token), value=key.model_dump(mode="json"), owner=scope)
        await self.store.write_items(SERVICE_SPACE, WriteItems(writes=[put], at=self.clock.now()))
        return token, key

    async def find(self, token: str) -> Principal:
        """Return who calls with this token (UnauthorizedError).

        The token is looked up by its digest: nothing secret is compared character by character.
        """
        get = GetItems(addresses=[_address(token)], at=self.clock.now())
        [item] = await self.store.get_items(SERVICE_SPACE, get)
        if item is None:
            msg = "this key is not known here: it was revoked, or is of another service"
            raise UnauthorizedError(msg)
        return _read(item.value).principal

    async def list(self) -> list[AccessKey]:
        """Return all keys, the newest first."""
        search = SearchItems(prefix=_KEYS, limit=_MAX_KEYS, at=self.clock.now())
        return [_read(item.value) for item in await self.store.search_items(SERVICE_SPACE, search)]

    async def revoke(self, key_id: str) -> AccessKey:
        """Remove a key by its id and return it (KeyNotFoundError)."""
        search = SearchItems(prefix=_KEYS, limit=_MAX_KEYS, at=self.clock.now())
        for item in await self.store.search_items(SERVICE_SPACE, search):
            key = _read(item.value)
            if key.key_id == key_id:
                address = ItemAddress(namespace=_KEYS, key=item.key)
                await self.store.write_items(SERVICE_SPACE, WriteItems(writes=[address], at=self.clock.now()))
                return key
        raise KeyNotFoundError([key_id], where="here", advice="`reme keys list` shows them")


def _address(token: str) -> ItemAddress:
    return ItemAddress(namespace=_KEYS, key=_digest(token))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _read_rights(rights: Sequence[str]) -> frozenset[Right]:
    try:
        return frozenset(Right(right) for right in rights)
    except ValueError:
        msg = f"rights: wanted some of {', '.join(Right)}, found {shown(list(rights))}"
        raise InvalidInputError(msg) from None


def _read(value: Mapping[str, object]) -> AccessKey:
    try:
        return AccessKey.model_validate(value)
    except ValidationError:
        msg = "an access key in the store can't be read: it was damaged, or written by a newer release"
        raise CorruptDataError(msg) from None
