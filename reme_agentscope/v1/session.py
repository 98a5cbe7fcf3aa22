"""Sessions of AgentScope 1.x in the file of a memory, in the place of `JSONSession` and its folder."""

import json
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from agentscope.module import StateModule
from agentscope.session import SessionBase

from reme_agentscope._shared.opening import ClosedAtEnd, OpenedMemory, user_of
from reme_core.errors import ConfigurationError, CorruptDataError, NotFoundError
from reme_core.ports import GetItems, ItemAddress, PutItem, WriteItems
from reme_core.schema import make_scope, shown

if TYPE_CHECKING:
    from reme_core import ReMe


class SessionNotFoundError(NotFoundError):
    """No such session of this user."""

    noun = "session"


class ReMeSession(ClosedAtEnd, SessionBase):
    """Saves agents and memories of a conversation, and loads them again; two users never share a session."""

    def __init__(self, reme: "ReMe | None" = None, *, expires_after: timedelta | None = None) -> None:
        """Keep the settings; no file is touched.

        Args:
            reme: The memory whose file they lie in, which stays open. None: one in the folder `.reme`.
            expires_after: A session that was not saved for so long is removed; None: it stays.

        Raises:
            ConfigurationError: Something else than a `ReMe`, or no time.
        """
        if expires_after is not None and expires_after <= timedelta():
            msg = f"expires_after: wanted a time above zero, found {shown(expires_after)}"
            raise ConfigurationError(msg)
        self._memory = OpenedMemory(reme)
        self._expires_after = expires_after

    async def save_session_state(
        self, session_id: str, user_id: str = "", **state_modules_mapping: StateModule
    ) -> None:
        """Save the states of modules under their names, in place of what the session has.

        Raises:
            StoreError: It is not on disk.
            InvalidInputError: A user or session id that can't be one.
        """
        memory, now = self._memory.get(), self._memory.get().clock.now()
        states = json.dumps({name: module.state_dict() for name, module in state_modules_mapping.items()})
        ttl_s = None if self._expires_after is None else self._expires_after.total_seconds()
        put = PutItem(
            address=_address(session_id, user_id),
            value={"states": states},
            ranked=False,
            ttl_s=ttl_s,
            owner=make_scope(memory.memory_space, user_of(user_id or None)),
        )
        await memory.store.write_items(memory.memory_space, WriteItems(writes=[put], at=now))
        if ttl_s is not None:
            await memory.store.sweep_items(memory.memory_space, now)

    async def load_session_state(
        self,
        session_id: str,
        user_id: str = "",
        allow_not_exist: bool = True,  # noqa: FBT001, FBT002  # AgentScope's signature
        **state_modules_mapping: StateModule,
    ) -> None:
        """Load the states of modules; those that were not saved stay as they are.

        Raises:
            SessionNotFoundError: This user has no such session, or its time is over, and `allow_not_exist` is False.
            CorruptDataError: What is stored under it is no session.
        """
        memory = self._memory.get()
        get = GetItems(addresses=[_address(session_id, user_id)], at=memory.clock.now(), omit_expired=True)
        [item] = await memory.store.get_items(memory.memory_space, get)
        if item is None:
            if allow_not_exist:
                return
            raise SessionNotFoundError([session_id])
        try:
            states = json.loads(str(item.value["states"]))
        except (KeyError, ValueError) as exc:
            msg = f"session {session_id!r}: what is stored is no session: save it anew"
            raise CorruptDataError(msg) from exc
        for name, module in state_modules_mapping.items():
            if name in states:
                module.load_state_dict(states[name])

    async def close(self) -> None:
        """Close what was built here; a memory that was handed in stays open."""
        await self._memory.close()


def _address(session_id: str, user_id: str) -> ItemAddress:
    """Return where a session lies; "" is AgentScope's word for no user."""
    label = quote(user_of(user_id or None), safe="").replace(".", "%2E")  # labels have no dots
    return ItemAddress(namespace=("agentscope", "sessions", label), key=session_id)
