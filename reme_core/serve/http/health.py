"""Health: that the service lives, and that it can keep something; what watches a process asks without a key."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from reme_core.ports import ItemAddress, PutItem, WriteItems
from reme_core.serve.service import Service
from reme_core.steps.costs import SERVICE_SPACE

_ASKED_AGAIN_S = 1.0
"""Anybody may ask, and each write waits for the disk: within this time the last answer is given again."""


@dataclass(slots=True)
class _Readiness:
    service: Service
    _proved: float = -_ASKED_AGAIN_S
    _gate: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def answer(self, _request: Request) -> Response:
        """Write to the store, whose failure is the answer."""
        async with self._gate:
            if time.monotonic() - self._proved >= _ASKED_AGAIN_S:
                now = self.service.memories.clock.now()
                put = PutItem(address=ItemAddress(namespace=("readiness",), key="probe"), value={})
                await self.service.memories.store.write_items(SERVICE_SPACE, WriteItems(writes=[put], at=now))
                self._proved = time.monotonic()
        return JSONResponse({"status": "ready"})


async def _lives(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


def health_routes(service: Service) -> list[BaseRoute]:
    """Return `/healthz`, which answers while the process lives, and `/readyz`, which writes to the store."""
    return [Route("/healthz", _lives), Route("/readyz", _Readiness(service).answer)]
