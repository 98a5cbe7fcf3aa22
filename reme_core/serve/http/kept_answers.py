"""Answers kept for a day under the key that a caller gave with the request, so that a request may be sent again.

Source: https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/. An answer is kept sealed: it opens
with the caller's key alone, of which the store holds a digest, so a text that is erased can't be read in it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from reme_core.errors import InvalidInputError, StoreError
from reme_core.ports import Clock, GetItems, ItemAddress, PutItem, Store, WriteItems
from reme_core.serve.access import Principal
from reme_core.serve.failures import PROBLEM
from reme_core.steps.costs import SERVICE_SPACE

_LOG = logging.getLogger("reme.serve")
KEPT_S = 24 * 3600.0
MAX_KEY_CHARS = 255
_NAMESPACE = ("kept-answers",)
_JSON = "application/json"


class KeyReusedError(InvalidInputError):
    """An `Idempotency-Key` that came with another request before."""


class _Kept(BaseModel):
    """An answer as it is kept.

    Attributes:
        request: The digest of the request.
        status: Of the answer.
        salt: Beside the key, what seals the body.
        body: The sealed body, in base64.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    request: str
    status: int
    salt: str
    body: str


@dataclass(frozen=True, slots=True)
class KeptAnswers:
    """Runs a request once for each key: the same one again gets the same answer, also while it still runs."""

    store: Store
    clock: Clock
    _running: WeakValueDictionary[ItemAddress, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def once(
        self, principal: Principal, key: str, request: bytes, work: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Return the answer kept under the key, or that of the work, which is kept where it is one to be kept.

        Args:
            principal: Who calls: keys of others are no matter.
            key: What the caller sent.
            request: All that makes the request another one.
            work: What is done the first time. Its failure keeps nothing.

        Raises:
            InvalidInputError: A key that can't be used.
            KeyReusedError: The key came with another request.
        """
        if not key.strip() or len(key) > MAX_KEY_CHARS:
            msg = f"Idempotency-Key: wanted 1 to {MAX_KEY_CHARS} characters, a UUID say"
            raise InvalidInputError(msg)
        address, digest = _address(principal, key), hashlib.sha256(request).hexdigest()
        async with self._alone(address):
            kept = await self._find(address)
            if kept is not None and kept.request != digest:
                msg = "Idempotency-Key: came with another request before; give each request a key of its own"
                raise KeyReusedError(msg)
            if kept is not None:
                return _opened(kept, key)
            return await _to_its_end(self._do(work, lambda answer: _put(principal, address, key, digest, answer)))

    async def _do(self, work: Callable[[], Awaitable[Response]], put: Callable[[Response], PutItem]) -> Response:
        answer = await work()
        try:
            await self.store.write_items(SERVICE_SPACE, WriteItems(writes=[put(answer)], at=self.clock.now()))
        except StoreError as exc:  # what was asked is done: to tell a failure would have it done again
            _LOG.warning("an answer is not kept for a request that comes again: %s", exc)
        return answer

    @asynccontextmanager
    async def _alone(self, address: ItemAddress) -> AsyncIterator[None]:
        lock = self._running.setdefault(address, asyncio.Lock())
        async with lock:
            yield

    async def _find(self, address: ItemAddress) -> _Kept | None:
        await self.store.sweep_items(SERVICE_SPACE, self.clock.now())
        get = GetItems(addresses=[address], at=self.clock.now(), omit_expired=True)
        [item] = await self.store.get_items(SERVICE_SPACE, get)
        return None if item is None else _Kept.model_validate(item.value)


async def _to_its_end(work: Coroutine[object, object, Response]) -> Response:
    """Run something to its end: the caller who leaves meanwhile sends it again, and it must be there then."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        task.exception()  # it is looked at: nobody is there to be told
        raise


def _put(principal: Principal, address: ItemAddress, key: str, digest: str, answer: Response) -> PutItem:
    value = _sealed(answer, key, digest).model_dump(mode="json")
    return PutItem(address=address, value=value, ttl_s=KEPT_S, owner=principal.scope)


def _address(principal: Principal, key: str) -> ItemAddress:
    whose = "\0".join((principal.scope.memory_space, principal.scope.user_id, principal.key_id or "", key))
    return ItemAddress(namespace=_NAMESPACE, key=hashlib.sha256(whose.encode("utf-8", "surrogatepass")).hexdigest())


def _sealed(answer: Response, key: str, request: str) -> _Kept:
    salt = secrets.token_hex(16)
    body = base64.b64encode(_masked(bytes(answer.body), key, salt)).decode()
    return _Kept(request=request, status=answer.status_code, salt=salt, body=body)


def _opened(kept: _Kept, key: str) -> Response:
    body = _masked(base64.b64decode(kept.body), key, kept.salt)
    media_type = PROBLEM if kept.status >= 400 else _JSON if body else None  # HTTP's failures
    return Response(body, kept.status, {"Idempotency-Replayed": "true"}, media_type)


def _masked(body: bytes, key: str, salt: str) -> bytes:
    """Seal or open a body with a stream of bytes that is used for this answer alone (SHAKE-256 of salt and key)."""
    stream = hashlib.shake_256(f"{salt}:{key}".encode("utf-8", "surrogatepass")).digest(len(body))
    return (int.from_bytes(body, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(body), "big")
