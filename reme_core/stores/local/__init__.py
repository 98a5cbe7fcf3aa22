"""The default store: one SQLite file, standard library only."""

from reme_core.stores.local.file.copies import FileFacts, check_file, copy_file, file_facts, restore_file
from reme_core.stores.local.file.database import Database
from reme_core.stores.local.file.file_location import check_unused, is_read_only
from reme_core.stores.local.file.row_digests import fill_digests
from reme_core.stores.local.file.tables import has_fts5
from reme_core.stores.local.file.whole_scope import HeldScope, list_scopes
from reme_core.stores.local.store import LocalStore

__all__ = [
    "Database",
    "FileFacts",
    "HeldScope",
    "LocalStore",
    "check_file",
    "check_unused",
    "copy_file",
    "file_facts",
    "fill_digests",
    "has_fts5",
    "is_read_only",
    "list_scopes",
    "restore_file",
]
