"""What has to hold in a file of the local store, whatever happened to the processes that wrote it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

# Each finds rows that belong to nothing, or things that lack what belongs to them.
_ORPHANS = {
    "vector of no message": "SELECT count(*) FROM message_vectors WHERE seq NOT IN (SELECT seq FROM messages)",
    "vector of no memory": "SELECT count(*) FROM memory_vectors WHERE row NOT IN (SELECT row FROM memories)",
    "words of no message": "SELECT count(*) FROM message_words WHERE rowid NOT IN (SELECT seq FROM messages)",
    "words of no memory": "SELECT count(*) FROM memory_words WHERE rowid NOT IN (SELECT row FROM memories)",
    "message without words": "SELECT count(*) FROM messages WHERE seq NOT IN (SELECT rowid FROM message_words)",
    "memory without words": "SELECT count(*) FROM memories WHERE row NOT IN (SELECT rowid FROM memory_words)",
    "words under another scope": """SELECT count(*) FROM message_words JOIN messages ON seq = message_words.rowid
        WHERE message_words.scope <> 's' || messages.scope""",
    "memory words under another scope": """SELECT count(*) FROM memory_words JOIN memories ON row = memory_words.rowid
        WHERE memory_words.scope <> 's' || memories.scope""",
    "message of no session": """SELECT count(*) FROM messages m WHERE NOT EXISTS
        (SELECT 1 FROM sessions s WHERE s.session = m.session AND s.scope = m.scope)""",
    "session of nothing": """SELECT count(*) FROM sessions WHERE session NOT IN (SELECT session FROM messages)
        AND session NOT IN (SELECT session FROM offloads) AND session NOT IN (SELECT session FROM offload_holders)""",
    "block of no session": """SELECT count(*) FROM blocks b WHERE NOT EXISTS
        (SELECT 1 FROM sessions s WHERE s.session = b.session AND s.scope = b.scope)""",
    "message in no block's row": """SELECT count(*) FROM messages m WHERE block IS NOT NULL AND NOT EXISTS
        (SELECT 1 FROM blocks b WHERE b.block = m.block AND b.scope = m.scope AND b.session = m.session)""",
    "block of no message": "SELECT count(*) FROM blocks WHERE block NOT IN (SELECT block FROM messages WHERE block)",
    "block with a message that is not there": """SELECT count(*) FROM blocks b, json_each(b.body, '$.message_ids') id
        WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.scope = b.scope AND m.message_id = id.value)""",
    "change of no scope": """SELECT count(*) FROM row_changes
        WHERE layer < 4 AND owner NOT IN (SELECT scope FROM scopes)""",
    "change of no namespace": """SELECT count(*) FROM row_changes
        WHERE layer = 4 AND owner NOT IN (SELECT ns FROM item_namespaces)""",
    "gap between the changes of a partition": """SELECT count(*) FROM
        (SELECT 1 FROM row_changes GROUP BY owner, layer HAVING max(change) - min(change) + 1 <> count(*))""",
    "event of no scope": "SELECT count(*) FROM events WHERE scope NOT IN (SELECT scope FROM scopes)",
    "memory of no scope": "SELECT count(*) FROM memories WHERE scope NOT IN (SELECT scope FROM scopes)",
    "message of no scope": "SELECT count(*) FROM messages WHERE scope NOT IN (SELECT scope FROM scopes)",
    "job of no scope": "SELECT count(*) FROM jobs WHERE scope NOT IN (SELECT scope FROM scopes)",
    "job whose columns say something else": """SELECT count(*) FROM jobs WHERE kind IS NOT json_extract(body, '$.kind')
        OR job_id IS NOT json_extract(body, '$.job_id') OR state IS NOT json_extract(body, '$.state')""",
    "scope of nothing": """SELECT count(*) FROM scopes WHERE scope NOT IN (SELECT scope FROM messages)
        AND scope NOT IN (SELECT scope FROM memories) AND scope NOT IN (SELECT scope FROM events)
        AND scope NOT IN (SELECT scope FROM jobs) AND scope NOT IN (SELECT scope FROM offloads)
        AND scope NOT IN (SELECT scope FROM tool_calls)""",
    "tool call of no scope": "SELECT count(*) FROM tool_calls WHERE scope NOT IN (SELECT scope FROM scopes)",
    "tool call whose columns say something else": """SELECT count(*) FROM tool_calls
        WHERE call_id IS NOT json_extract(body, '$.call_id') OR tool_name IS NOT json_extract(body, '$.tool_name')
        OR success IS NOT json_extract(body, '$.success') OR time_cost IS NOT json_extract(body, '$.time_cost')
        OR token_cost IS NOT json_extract(body, '$.token_cost') OR success IS NOT (error IS NULL)""",
    "offload of no session": """SELECT count(*) FROM offloads o WHERE NOT EXISTS
        (SELECT 1 FROM sessions s WHERE s.session = o.session AND s.scope = o.scope)""",
    "offload whose columns say something else": """SELECT count(*) FROM offloads o JOIN sessions USING (session)
        WHERE reference IS NOT json_extract(info, '$.reference') OR kind IS NOT json_extract(info, '$.kind')
        OR session_id IS NOT json_extract(info, '$.session_id') OR bytes IS NOT length(CAST(text AS BLOB))
        OR length(text) IS NOT json_extract(info, '$.chars')""",
    "offload without a message": """SELECT count(*) FROM offloads o, json_each(o.info, '$.message_ids') id
        WHERE NOT EXISTS (SELECT 1 FROM messages m WHERE m.scope = o.scope AND m.message_id = id.value)""",
    "offload that its passages don't reach the end of": """SELECT count(*) FROM offloads o WHERE length(text) IS NOT
        (SELECT coalesce(max(start + chars), 0) FROM offload_passages p WHERE p.offload = o.offload)""",
    "passage of no offload": """SELECT count(*) FROM offload_passages p WHERE NOT EXISTS
        (SELECT 1 FROM offloads o WHERE o.offload = p.offload AND o.scope = p.scope)""",
    "passage without words": """SELECT count(*) FROM offload_passages
        WHERE passage NOT IN (SELECT rowid FROM offload_words)""",
    "words of no passage": """SELECT count(*) FROM offload_words
        WHERE rowid NOT IN (SELECT passage FROM offload_passages)""",
    "passage's words under another scope": """SELECT count(*) FROM offload_words JOIN offload_passages
        ON passage = offload_words.rowid WHERE offload_words.scope <> 's' || offload_passages.scope""",
    "hold of no session or offload": """SELECT count(*) FROM offload_holds h WHERE NOT EXISTS
        (SELECT 1 FROM offload_holders o WHERE o.session = h.session AND o.scope = h.scope) OR NOT EXISTS
        (SELECT 1 FROM offloads o WHERE o.offload = h.offload AND o.scope = h.scope)""",
    "session that holds nothing": """SELECT count(*) FROM offload_holders WHERE session NOT IN
        (SELECT session FROM offload_holds) OR session NOT IN (SELECT session FROM sessions)""",
    "item of no namespace": "SELECT count(*) FROM items WHERE ns NOT IN (SELECT ns FROM item_namespaces)",
    "namespace of no item": "SELECT count(*) FROM item_namespaces WHERE ns NOT IN (SELECT ns FROM items)",
    "vector of no item": "SELECT count(*) FROM item_vectors WHERE item NOT IN (SELECT item FROM items)",
    "item of no memory": """SELECT count(*) FROM items WHERE memory_row IS NOT NULL
        AND memory_row NOT IN (SELECT row FROM memories)""",
    "item that was changed before it was made": "SELECT count(*) FROM items WHERE updated < created",
    "item with vectors whose memory has another first one": """SELECT count(*) FROM items
        JOIN memory_vectors ON memory_vectors.row = memory_row JOIN memories ON memories.row = memory_row
        WHERE ranked AND memory_vectors.vector IS NOT
            (SELECT data FROM item_vectors v WHERE v.item = items.item ORDER BY v.vector LIMIT 1)""",
    "memory whose last event says something else": """SELECT count(*) FROM memories m WHERE
        (SELECT json_extract(after, '$.revision') FROM events e WHERE e.scope = m.scope AND e.memory_id = m.memory_id
            ORDER BY sequence DESC LIMIT 1) IS NOT m.revision""",
    "event after which there should be a memory": """SELECT count(*) FROM events e WHERE after IS NOT NULL
        AND NOT EXISTS (SELECT 1 FROM memories m WHERE m.scope = e.scope AND m.memory_id = e.memory_id)
        AND NOT EXISTS (SELECT 1 FROM events later WHERE later.scope = e.scope AND later.memory_id = e.memory_id
            AND later.sequence > e.sequence)""",
}


def problems_of_file(path: Path) -> list[str]:
    """Return everything that is wrong with a file of the local store, in words; nothing is what it should be."""
    with closing(sqlite3.connect(path)) as connection:
        found = [f"integrity: {row[0]}" for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        for table in ("message_words", "memory_words", "offload_words"):
            try:
                connection.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")  # noqa: S608  # three names
            except sqlite3.DatabaseError as exc:
                found.append(f"{table}: {exc}")
        connection.rollback()
        for what, query in _ORPHANS.items():
            (count,) = connection.execute(query).fetchone()
            if count:
                found.append(f"{count} x {what}")
        return found


def bytes_on_disk(path: Path) -> bytes:
    """Return the raw bytes of the file and of what SQLite keeps beside it."""
    parts = [path, *(path.with_name(path.name + suffix) for suffix in ("-wal", "-shm", "-journal"))]
    return b"".join(part.read_bytes() for part in parts if part.exists())


def leave_free_pages(path: Path) -> None:
    """Make a file what an earlier release made and erased a megabyte from: it can't be cut, and has free pages."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in ("PRAGMA journal_mode = DELETE", "PRAGMA auto_vacuum = NONE", "VACUUM"):
            connection.execute(statement)
        connection.execute("CREATE TABLE erased AS SELECT zeroblob(1000000)")
        connection.execute("DROP TABLE erased")
