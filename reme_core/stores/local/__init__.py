"""The default store: one SQLite file, standard library only."""

from reme_core.stores.local.file.database import Database
from reme_core.stores.local.store import LocalStore

__all__ = ["Database", "LocalStore"]
