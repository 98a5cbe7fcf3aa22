"""Trust classes of rows: conditions on them, and memories held to the class of the messages that they come from."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

from reme_core.ports import PutMemory
from reme_core.schema import Memory, TrustClass, least_trusted, read_stored_message
from reme_core.schema.trust import OF_PEOPLE, TRUST
from reme_core.stores.sql.connection import AMONG, SqlConnection

# How a result begins in the JSON of a message, and so may arguments of a call and metadata.
_RESULT = '{"type":"tool_result",'


def trust_of_memory(connection: SqlConnection) -> str:
    """Return the class of a row of `memories`; one of before there were classes has that of its author."""
    trust, author = (connection.dialect.json_text("body", name) for name in ("trust", "author"))
    people = ", ".join(f"'{name}'" for name in OF_PEOPLE)
    return f"coalesce({trust}, CASE WHEN {author} IN ({people}) THEN 'user' ELSE 'assistant' END)"


def messages_of_trust(connection: SqlConnection, scope: int, trust: Collection[TrustClass]) -> list[int]:
    """Return the rows of a scope's messages of some classes; see `Message.trust`."""
    role, holds = connection.dialect.json_text("body", "role"), connection.dialect.holds("body")
    may_carry = f"({role} <> 'tool' AND {holds})"
    cases, values = list[str](), list[object]()
    of_role = {"web": "", "tool": f" OR {role} = 'tool'", "assistant": f" OR {role} = 'assistant'"}
    for known, own in of_role.items():
        marked, bound = connection.dialect.metadata_is(TRUST, known)
        cases.append(f"WHEN {marked}{own} THEN '{known}'")
        values += bound
    found = connection.execute(
        f"SELECT seq, CASE WHEN {may_carry} THEN body END FROM messages WHERE scope = ?"  # noqa: S608  # fixed texts
        f" AND ({may_carry} OR CASE {' '.join(cases)} ELSE 'user' END {AMONG})",
        (_RESULT, scope, _RESULT, *values, json.dumps([*trust])),
    )
    return [row for row, body in found if body is None or read_stored_message(body).trust in trust]


def no_more_trusted(connection: SqlConnection, scope: int, puts: Sequence[PutMemory]) -> Sequence[PutMemory]:
    """Return puts whose memories are no more trusted than the messages that they come from, as far as these are here.

    A source that names no message is all of its block.
    """
    sources = {source for put in puts for source in put.memory.sources}
    if not sources:
        return puts
    named = {name for source in sources for name in source.message_ids}
    whole = {source.block_id for source in sources if source.block_id is not None and not source.message_ids}
    of_messages = _classes(connection, _OF_MESSAGES, scope, named)
    of_blocks = _classes(connection, _OF_BLOCKS, scope, whole)

    def lowered(memory: Memory) -> Memory:
        classes = [memory.trust]
        for source in memory.sources:
            names, found = (source.message_ids, of_messages) if source.message_ids else ((source.block_id,), of_blocks)
            classes += [found[name] for name in names if name in found]
        return memory.model_copy(update={"trust": least_trusted(classes)})

    return [replace(put, memory=lowered(put.memory)) if put.memory.sources else put for put in puts]


_OF_MESSAGES = f"SELECT message_id, body FROM messages WHERE scope = ? AND message_id {AMONG}"  # noqa: S608  # a fixed text
_OF_BLOCKS = (
    "SELECT block_id, messages.body FROM blocks JOIN messages USING (block)"  # noqa: S608  # as above
    f" WHERE blocks.scope = ? AND block_id {AMONG}"
)


def _classes(connection: SqlConnection, query: str, scope: int, names: Collection[str]) -> dict[str | None, TrustClass]:
    """Return the least trusted class of the messages that a query finds under each name."""
    found: dict[str | None, TrustClass] = {}
    rows = connection.execute(query, (scope, json.dumps([*names]))) if names else ()
    for name, body in rows:
        found[name] = least_trusted([found.get(name, TrustClass.USER), read_stored_message(body).trust])
    return found
