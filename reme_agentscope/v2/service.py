"""Middlewares of AgentScope's agent service, which makes them anew for each turn, over one memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentscope.middleware import MiddlewareBase

from reme_agentscope._shared.memory_kind import LOG
from reme_agentscope._shared.opening import OpenedMemory, check_kept, logged
from reme_agentscope.v2._parameters import Parameters
from reme_agentscope.v2.middleware import ReMeMiddleware
from reme_core.adapting import Appends

if TYPE_CHECKING:
    from reme_core import ReMe


class ReMeMiddlewares:
    """Makes a `ReMeMiddleware` for each turn: `create_app(extra_agent_middlewares=ReMeMiddlewares(memory))`.

    The service says whose turn it is. What is still to be written outlives the turn: `flush` and `close` wait for all
    of it, so `close` belongs at the end of the service, before the memory is closed.
    """

    def __init__(
        self,
        reme: ReMe,
        *,
        parameters: Parameters | None = None,
        by_agent: bool = False,
        by_session: bool = False,
    ) -> None:
        """Keep the settings.

        Args:
            reme: The memory of all of them; it stays open.
            parameters: What they have in common; the user is the service's in any case.
            by_agent: Keep what is remembered of a user apart for each agent.
            by_session: Keep it apart for each session.

        Raises:
            ConfigurationError: Something else than a `ReMe`.
        """
        self._memory = OpenedMemory(reme)
        self._reme = reme
        self._parameters = parameters or ReMeMiddleware.Parameters()
        self._by_agent = by_agent
        self._by_session = by_session
        self._appends = Appends(type(self).__name__, log=LOG)

    async def __call__(self, user_id: str, agent_id: str, session_id: str) -> list[MiddlewareBase]:
        """Return the middleware of one turn (InvalidInputError: a user id that can't be one)."""
        whose: dict[str, object] = {"user_name": user_id}
        if self._by_agent:
            whose["agent_name"] = agent_id
        if self._by_session:
            whose["session_name"] = session_id
        given = self._parameters.model_copy(update=whose)
        return [ReMeMiddleware(reme=self._reme, parameters=given, appends=self._appends)]

    async def flush(self) -> None:
        """Wait until everything handed in is on disk and memories are made of it; what fails is logged."""
        await self._appends.flush()
        await logged(self._memory.flush())

    async def close(self) -> None:
        """Do what `flush` does (StoreError: something that was said is not on disk)."""
        await self.flush()
        check_kept(self._appends)
