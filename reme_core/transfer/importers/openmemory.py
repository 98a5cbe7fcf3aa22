"""Export of OpenMemory (mem0's local server): a ZIP archive with `memories.json`, or that file by itself.

Form: `/api/v1/backup/export` of mem0ai/mem0, openmemory/api/app/routers/backup.py, version "1" of `export_meta`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.transfer.importers.foreign_data import text_of, time_of
from reme_core.transfer.importers.items import ImportedItem, ImportedMemory, Unreadable
from reme_core.transfer.importers.json_values import read_items

_FILE = "memories.json"


@dataclass(frozen=True, slots=True)
class OpenMemorySource:
    """The memories of one user of OpenMemory that are active there.

    Attributes:
        place: The archive, or `memories.json` out of it.
    """

    place: str
    name: str = "openmemory"

    def items(self) -> Iterator[ImportedItem]:
        """Yield the memories; see `ImportSource.items`."""
        return read_items(Path(self.place), re.compile(re.escape(_FILE)), _FILE, _memories)


def _memories(_where: str, export: JsonValue) -> Iterator[ImportedItem]:
    rows = export.get("memories") if isinstance(export, dict) else None
    if not isinstance(export, dict) or not isinstance(rows, list):
        msg = f"{_FILE} has no list of memories: wanted the ZIP archive that OpenMemory exports"
        raise InvalidInputError(msg)
    owner = export.get("user")
    user = text_of(owner.get("user_id")) if isinstance(owner, dict) else None
    names = {**_names(export, "apps"), **_names(export, "categories")}
    for place, row in enumerate(rows, 1):
        yield _memory(f"{_FILE}, memory {place}", row, user, names)


def _names(export: Mapping[str, JsonValue], kind: str) -> dict[JsonValue, str]:
    rows = export.get(kind)
    named = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return {row["id"]: str(row.get("name")) for row in named if isinstance(row.get("id"), str)}


def _memory(
    where: str, row: JsonValue, user: str | None, names: Mapping[JsonValue, str]
) -> ImportedMemory | Unreadable:
    source_id = row.get("id") if isinstance(row, dict) else None
    content = text_of(row.get("content")) if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(source_id, str) or content is None:
        return Unreadable(where, "is no memory with an id and a text")
    state = row.get("state", "active")
    if state != "active":
        return Unreadable(where, f"is {str(state)[:20]} there, and only what is active is taken over")
    own, kinds, app = row.get("metadata"), row.get("category_ids"), row.get("app_id")
    told: dict[str, JsonValue] = {
        "app": names.get(app) if isinstance(app, str) else None,
        "categories": [names[kind] for kind in kinds if isinstance(kind, str) and kind in names]
        if isinstance(kinds, list)
        else [],
    }
    return ImportedMemory(
        source_id=source_id,
        user=user,
        content=content,
        where=where,
        created_at=time_of(row.get("created_at")),
        updated_at=time_of(row.get("updated_at")),
        metadata={**(own if isinstance(own, dict) else {}), **{key: value for key, value in told.items() if value}},
    )
