"""Implementations of the store and of the index; each library behind one is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names
from reme_core.stores.local.file.copies import FileFacts as FileFacts
from reme_core.stores.local.file.copies import check_file as check_file
from reme_core.stores.local.file.copies import copy_file as copy_file
from reme_core.stores.local.file.copies import file_facts as file_facts
from reme_core.stores.local.file.copies import restore_file as restore_file
from reme_core.stores.local.file.database import Database as Database
from reme_core.stores.local.file.digests import fill_digests as fill_digests
from reme_core.stores.local.file.file_location import check_unused as check_unused
from reme_core.stores.local.file.file_location import is_read_only as is_read_only
from reme_core.stores.local.file.tables import has_fts5 as has_fts5
from reme_core.stores.local.file.whole_scope import HeldScope as HeldScope
from reme_core.stores.local.file.whole_scope import list_scopes as list_scopes
from reme_core.stores.local.store import LocalStore as LocalStore
from reme_core.stores.noted_files import FileNotes as FileNotes
from reme_core.stores.sql.connection import SpacePart as SpacePart
from reme_core.stores.sql.connection import SqlConnection as SqlConnection
from reme_core.stores.sql.connection import SqlDatabase as SqlDatabase
from reme_core.stores.sql.embedding_record import find_embedding as find_embedding
from reme_core.stores.sql.embedding_record import find_target as find_target
from reme_core.stores.sql.store import SqlStore as SqlStore

if TYPE_CHECKING:
    from reme_core.stores.copying.copy_store import CopiedUnit as CopiedUnit
    from reme_core.stores.copying.copy_store import StoreCopy as StoreCopy
    from reme_core.stores.copying.places import CopyRequest as CopyRequest
    from reme_core.stores.copying.places import run_copy as run_copy
    from reme_core.stores.copying.stores_as_rows import Chosen as Chosen
    from reme_core.stores.indexed import IndexedStore as IndexedStore
    from reme_core.stores.postgres.admin import DatabaseFacts as DatabaseFacts
    from reme_core.stores.postgres.admin import database_facts as database_facts
    from reme_core.stores.postgres.admin import migrate_database as migrate_database
    from reme_core.stores.postgres.admin import planned_migrations as planned_migrations
    from reme_core.stores.postgres.settings import ServerSettings as ServerSettings
    from reme_core.stores.postgres.store import PostgresStore as PostgresStore
    from reme_core.stores.qdrant import QdrantIndex as QdrantIndex
    from reme_core.stores.qdrant import QdrantLayout as QdrantLayout

if not TYPE_CHECKING:  # for a type checker, a name that isn't there is an error
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "copying.copy_store": "CopiedUnit StoreCopy",
            "copying.places": "CopyRequest run_copy",
            "copying.stores_as_rows": "Chosen",
            "indexed": "IndexedStore",
            "qdrant": "QdrantIndex QdrantLayout",
            "postgres.admin": "DatabaseFacts database_facts migrate_database planned_migrations",
            "postgres.settings": "ServerSettings",
            "postgres.store": "PostgresStore",
        },
        extras={"qdrant_client": "qdrant", "psycopg": "postgres"},
    )
