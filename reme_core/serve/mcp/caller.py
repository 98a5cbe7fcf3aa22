"""Caller of a tool: the memory that is touched, whose it is there, and what may be done."""

from __future__ import annotations

from dataclasses import dataclass

from reme_core.facade.reme import ReMe
from reme_core.serve.access import Principal


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, with the memory of their space.

    Attributes:
        principal: Who, and with which rights.
        memory: The memory of their space; every call to it names `user_id`.
    """

    principal: Principal
    memory: ReMe

    @property
    def user_id(self) -> str:
        """The user whose memory it is."""
        return self.principal.scope.user_id
