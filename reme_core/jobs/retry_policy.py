"""Policy of retries: how often a job is tried, how long it waits, and how long it is held."""

from __future__ import annotations

from dataclasses import dataclass

from reme_core.errors import ConfigurationError
from reme_core.schema import shown

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a job is tried, and how long it is held.

    Attributes:
        max_attempts: Then it is given up, and waits among the dead ones with its reason.
        first_delay_s: After the first failure; four times as long after each further one, a day at most.
        hold_s: For how long a job is held unless renewed, which is done in time: what another machine must wait for
            after this one has died. On the same machine nobody waits.
        max_scopes: Users whose jobs are done at the same time in the background.
    """

    max_attempts: int = 5
    first_delay_s: float = 30.0
    hold_s: float = 60.0
    max_scopes: int = 8

    def __post_init__(self) -> None:
        """Check the numbers (ConfigurationError, naming the first that makes no sense)."""
        for name, value in (("max_attempts", self.max_attempts), ("max_scopes", self.max_scopes)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                msg = f"trying: {name} is a number of at least 1, found {shown(value)}"
                raise ConfigurationError(msg)
        for name, seconds, least in (("first_delay_s", self.first_delay_s, 0.0), ("hold_s", self.hold_s, 1e-3)):
            if not isinstance(seconds, (int, float)) or not least <= seconds <= _DAY_S:
                msg = f"trying: {name} lies between {least:g} and {_DAY_S:g} seconds, found {shown(seconds)}"
                raise ConfigurationError(msg)

    def delay_s(self, attempts: int) -> float:
        """Return the seconds to wait after so many attempts, the last of which has just failed."""
        return min(self.first_delay_s * 4.0 ** min(attempts - 1, 20), _DAY_S)
