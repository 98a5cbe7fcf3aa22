"""Rows of adapters that have tables beside ours: their long base64 is kept apart, once for a user."""

from __future__ import annotations

from reme_core.stores.sql.blob_rows import drop_unused as drop_unused
from reme_core.stores.sql.blob_rows import keep_apart as keep_apart
from reme_core.stores.sql.blob_rows import put_together as put_together
