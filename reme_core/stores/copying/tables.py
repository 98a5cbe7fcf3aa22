"""The tables that a copy takes along: what stands in their rows, and what these point at.

A row points at another one by its number, which means nothing elsewhere. So each is read with the names of what it
points at, too: names are compared between stores, numbers are moved by as much for all rows of a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Value: TypeAlias = int | float | str | bytes | None
Row: TypeAlias = tuple[Value, ...]
"""The number of a row (None where its table has none), its columns, the numbers that it points at, their names."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A column that holds the number of another row.

    Attributes:
        column: The column.
        table: The table of that row.
        number: The column of that number there.
        name: What that row is known by.
    """

    column: str
    table: str
    number: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """A table whose rows are copied.

    Attributes:
        name: Its name, in every engine.
        number: The column by which its rows are numbered, in their order; None: the target numbers them, or nobody.
        columns: What is copied as it is.
        references: What is copied as the number of the same row in the target.
        key: Columns, and references, by which a row is the same one in two stores; (): all of them.
        owner: What has the number of the scope: the row (`t`), or what it points at first (`r0`).
        scope: The column of that number.
        flags: Columns that are true or false.
        order: The order of rows that have no number of their own.
        at_once: How many rows are held at once: some texts have megabytes.
    """

    name: str
    number: str | None
    columns: tuple[str, ...]
    references: tuple[Reference, ...] = ()
    key: tuple[str, ...] = ()
    owner: Literal["t", "r0"] = "t"
    scope: str = "scope"
    flags: frozenset[str] = frozenset()
    order: str = ""
    at_once: int = 500

    @property
    def placed(self) -> tuple[str, ...]:
        """The columns that are written, in the order of a written row."""
        return (*self.columns, *(reference.column for reference in self.references))

    @property
    def flag_places(self) -> frozenset[int]:
        """The places of flags in a row."""
        return frozenset(place for place, column in enumerate(self.columns, 1) if column in self.flags)

    def value(self, row: Row, column: str) -> Value:
        """Return what a row has in a column."""
        return row[1 + self.columns.index(column)]

    def select(self) -> str:
        """Return the query of its rows of a scope, whose number is bound, in their order."""
        joined = [(f"r{n}", item) for n, item in enumerate(self.references)]
        wanted = [
            "NULL" if self.number is None else f't."{self.number}"',
            *(f't."{column}"' for column in self.placed),
            *(f'{alias}."{item.name}"' for alias, item in joined),
        ]
        others = "".join(
            f' LEFT JOIN {item.table} AS {alias} ON {alias}."{item.number}" = t."{item.column}"'
            for alias, item in joined
        )
        return (
            f"SELECT {', '.join(wanted)} FROM {self.name} AS t{others}"  # noqa: S608  # names of ours
            f" WHERE {self.owner}.{self.scope} = ? ORDER BY {self.order or f't.{self.number}'}"
        )

    def insert(self) -> str:
        """Return the statement that writes a row: its number, if it has one, what is placed, and the scope's number.

        The tables of vectors have no scope in the file; a server knows it.
        """
        columns = [
            *([] if self.number is None else [self.number]),
            *self.placed,
            *([self.scope] if self.owner == "t" else []),
        ]
        names = ", ".join(f'"{column}"' for column in columns)
        return f"INSERT INTO {self.name} ({names}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608  # as above

    def content(self, row: Row) -> Row:
        """Return what a row says in whatever store it stands: its columns, and the names of what it points at."""
        return (*row[1 : 1 + len(self.columns)], *row[1 + len(self.placed) :])

    def identity(self, row: Row) -> Row:
        """Return what a row is known by in its scope."""
        content = self.content(row)
        names = self.placed
        return content if not self.key else tuple(content[names.index(name)] for name in self.key)


_SESSION = Reference("session", "sessions", "session", "session_id")
_MESSAGE = Reference("seq", "messages", "seq", "message_id")
_MEMORY = Reference("row", "memories", "row", "memory_id")
_OFFLOAD = Reference("offload", "offloads", "offload", "reference")

OF_SCOPES: tuple[CopiedTable, ...] = (
    CopiedTable(name="sessions", number="session", columns=("session_id",), key=("session_id",)),
    CopiedTable(
        name="blobs",
        number="blob",
        columns=("digest", "media_type", "bytes", "data"),
        key=("digest",),
        at_once=1,
    ),
    CopiedTable(
        name="blocks",
        number="block",
        columns=("block_id", "started_at", "ended_at", "terms", "body"),
        references=(_SESSION,),
        key=("block_id",),
    ),
    CopiedTable(
        name="messages",
        number="seq",
        columns=("message_id", "speaker", "said_at", "asks", "waits", "terms", "body", "by_user", "wishes", "passages"),
        references=(_SESSION, Reference("block", "blocks", "block", "block_id")),
        key=("message_id",),
        flags=frozenset({"asks", "waits", "by_user", "wishes"}),
    ),
    CopiedTable(
        name="message_vectors",
        number=None,
        columns=("vector",),
        references=(_MESSAGE,),
        key=("seq",),
        owner="r0",
        order="r0.seq",
    ),
    CopiedTable(
        name="memories",
        number="row",
        columns=(
            *("memory_id", "memory_type", "memory_target", "normal", "created", "observed_at", "valid_from"),
            *("valid_to", "revision", "terms", "body", "ranked", "superseded_by", "waits"),
        ),
        key=("memory_id",),
        flags=frozenset({"ranked", "waits"}),
    ),
    CopiedTable(
        name="memory_vectors",
        number=None,
        columns=("vector",),
        references=(_MEMORY,),
        key=("row",),
        owner="r0",
        order="r0.row",
    ),
    CopiedTable(
        name="events",
        number="sequence",
        columns=("memory_id", "operation", "before", "after", "reason", "run_id", "actor", "at"),
    ),
    CopiedTable(
        name="jobs",
        number="job",
        columns=("job_id", "origin", "kind", "state", "created", "due", "body"),
        key=("job_id",),
        at_once=50,
    ),
    CopiedTable(
        name="offloads",
        number="offload",
        columns=("reference", "kind", "message_id", "digest", "created", "said", "bytes", "info", "text"),
        references=(_SESSION,),
        key=("reference",),
        at_once=4,
    ),
    CopiedTable(
        name="offload_passages",
        number="passage",
        columns=("start", "chars", "line"),
        references=(_OFFLOAD,),
        key=("offload", "start"),
    ),
    CopiedTable(
        name="offload_holders",
        number=None,
        columns=("said",),
        references=(_SESSION,),
        key=("session",),
        order="r0.session_id",
    ),
    CopiedTable(
        name="offload_holds",
        number=None,
        columns=("since",),
        references=(_SESSION, _OFFLOAD),
        key=("session", "offload"),
        order="r0.session_id, r1.reference",
    ),
    CopiedTable(
        name="tool_calls",
        number="call",
        columns=("call_id", "tool_name", "created", "success", "time_cost", "token_cost", "error", "body"),
        key=("call_id",),
        flags=frozenset({"success"}),
        at_once=50,
    ),
)
"""The tables of a scope, each behind those that its rows point at."""

OF_ADAPTERS: tuple[CopiedTable, ...] = (
    CopiedTable(
        name="agentscope_sessions",
        number="id",
        columns=("memory_space", "user", "name", "summary", "version"),
        key=("memory_space", "user", "name"),
        scope="erased_with",
        at_once=50,
    ),
    CopiedTable(
        name="agentscope_messages",
        number="position",
        columns=("message_id", "body", "has_left"),
        references=(Reference("session", "agentscope_sessions", "id", "name"),),
        scope="erased_with",
        at_once=50,
    ),
    CopiedTable(
        name="openai_agents_items",
        number="position",
        columns=("session", "message", "body"),
        scope="erased_with",
        at_once=50,
    ),
)
"""Tables of adapters whose rows are of a scope: copied where both stores have them."""

ITEMS = CopiedTable(
    name="items",
    number="item",
    columns=(
        *("key", "created", "updated", "expires", "ttl", "value"),
        *("path", "memory_id", "memory_of", "owner", "vectors"),  # of what it points at, and its vectors in one piece
    ),
    key=("path", "key"),
    at_once=100,
)
"""Items of a space: read and written by statements of their own, as their rows reach into other tables and spaces."""

NAMED = {table.name: table for table in (*OF_SCOPES, *OF_ADAPTERS, ITEMS)}
