"""The clock of this machine."""

from __future__ import annotations

from datetime import datetime

from reme_core.schema import utc_now


class SystemClock:
    """Tells the time of this machine, aware, in UTC. A `Clock`."""

    def now(self) -> datetime:
        """Return the time now."""
        return utc_now()
