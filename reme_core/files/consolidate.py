"""Consolidation: what of the journal lasts goes into MEMORY.md, as one run that can be undone; the journal stays."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from reme_core.errors import ModelError
from reme_core.files.changes import Known, added_memory, changed_memory
from reme_core.files.file_index import Entry, FileIndex
from reme_core.files.folder import FileProblem, UnreadableFileError, read_page
from reme_core.files.markdown import MarkdownPage, Statement, new_line_id, read_content, statement_line
from reme_core.files.store_changes import PageEdit, apply_edit, find_memories
from reme_core.files.targets import MEMORY_PAGE, OWN_TARGET
from reme_core.ports import (
    ChatModel,
    Clock,
    GetItems,
    ItemAddress,
    PutItem,
    PutMemory,
    ResponseSchema,
    Store,
    WriteBatch,
    WriteItems,
)
from reme_core.schema import Usage, new_id
from reme_core.schema.memories import MAX_MEMORY_CHARS
from reme_core.steps.ask_json import (
    JsonQuestion,
    MeteredChatModel,
    WrittenAnswer,
    ask,
    list_schema,
    none_as_empty,
    not_blank,
)
from reme_core.steps.costs import SERVICE_SPACE, CostBook
from reme_core.text import Language, fence, json_line, load_prompt, normalise_content, prompt_language

AUTHOR = "consolidation"
"""The author and actor of what comes out of the journal."""

KEEP_TAG = "#keep"
"""A line of the journal with this tag lasts, with a model and without."""

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_BULLET = re.compile(r"^\s*(?:>\s*)*(?:(?:[-*+]|\d+[.)])\s+)?(?:\[[ xX]\]\s+)?")
_TAG = re.compile(rf"(?<!\S){KEEP_TAG}(?![\w/-])")
_DONE = "file-consolidated"
_SHOWN_STATEMENTS = 200  # as many as AGENTS.md shows
_SHOWN_CHARS = 24_000  # of a day: some 6,000 tokens, which leave room in a small window
_SCHEMA = ResponseSchema(
    name="consolidation",
    schema=list_schema(
        "keep",
        {
            "content": {"type": "string"},
            "replaces": {"type": ["integer", "null"]},
            "lines": {"type": "array", "items": {"type": "integer"}},
        },
    ),
)


class _Kept(WrittenAnswer):
    content: Annotated[str, Field(max_length=MAX_MEMORY_CHARS), AfterValidator(not_blank)]
    replaces: int | None = None
    lines: Annotated[tuple[int, ...], BeforeValidator(none_as_empty)] = ()


class _Answer(WrittenAnswer):
    keep: Annotated[tuple[_Kept, ...], BeforeValidator(none_as_empty)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidation:
    """What a consolidation came to.

    Attributes:
        difference: How MEMORY.md changes, as a unified difference; "" if it does not.
        run_id: What `undo` takes; None where nothing was written.
        days: The days of the journal that were looked at.
        added: New statements.
        changed: Statements that say something else.
        problems: Days that were left out, and what to do.
        usage: What the model cost.
    """

    difference: str = ""
    run_id: str | None = None
    days: tuple[str, ...] = ()
    added: int = 0
    changed: int = 0
    problems: tuple[FileProblem, ...] = ()
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class _JournalDay:
    day: str
    sha256: str
    lines: tuple[str, ...]

    @property
    def path(self) -> str:
        return f"memory/{self.day}.md"


@dataclass(slots=True)
class Consolidator:
    """Works out and writes one consolidation of a folder, which is synced before, unless nothing is to be written.

    Attributes:
        root: The folder.
        store: Where the memories are.
        index: The folder's index.
        clock: Tells the time.
        wants_vectors: Whether what is new waits for a vector.
        model: Chooses, with one call a day of the journal; None: only lines that somebody has marked last.
        language: Of the prompt; None follows the journal.
        usage: What the model has cost so far.
    """

    root: Path
    store: Store
    index: FileIndex
    clock: Clock
    wants_vectors: bool
    model: ChatModel | None = None
    language: Language | None = None
    usage: Usage = field(default_factory=Usage)
    _page: MarkdownPage = field(default_factory=lambda: MarkdownPage(()))
    _kept: dict[str, Statement] = field(default_factory=dict)
    _edit: PageEdit = field(default_factory=lambda: PageEdit(MarkdownPage(())))
    _new: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    _changed: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    _problems: list[FileProblem] = field(default_factory=list)

    async def run(self, *, dry_run: bool) -> Consolidation:
        """Look at each day of the journal that is new or was changed since the last time.

        Raises:
            ConflictError: A statement was changed meanwhile: do it again.
            StoreError: The store can't be read or written.
        """
        self._page = await asyncio.to_thread(self._read_memory_page)
        done = []
        for day in await self._open_days():
            try:
                chosen = await self._choose(day)
            except ModelError as exc:
                self._problems.append(FileProblem(day.path, f"was left out, as the model failed: {exc.message}"))
                continue
            for item in chosen:
                self._take(item, datetime.fromisoformat(day.day).replace(tzinfo=UTC))
            done.append(day)
        await CostBook(self.store, self.clock).add(self.index.scope, AUTHOR, self.usage)
        run_id = None if dry_run else await self._write(done)
        return Consolidation(
            difference=self._difference(),
            run_id=run_id,
            days=tuple(day.day for day in done),
            added=len(self._new),
            changed=len(self._changed),
            problems=tuple(self._problems),
            usage=self.usage,
        )

    def _read_memory_page(self) -> MarkdownPage:
        if not (self.root / MEMORY_PAGE).is_file():
            return MarkdownPage(())
        page = MarkdownPage.parse(read_page(self.root, MEMORY_PAGE).data)
        for statement in page.statements:
            self._kept.setdefault(_key(read_content(statement.shown)), statement)
        return page

    async def _open_days(self) -> list[_JournalDay]:
        days = await asyncio.to_thread(self._read_days)
        places = [self._place(day) for day in days]
        query = GetItems(addresses=places, at=self.clock.now())
        items = await self.store.get_items(SERVICE_SPACE, query) if places else []
        before = [{} if item is None else item.value for item in items]
        return [
            day
            for day, value in zip(days, before, strict=True)
            if value.get("sha256") != day.sha256 or (self.model is not None and not value.get("with_model"))
        ]

    def _read_days(self) -> list[_JournalDay]:
        days = []
        for file in sorted((self.root / "memory").glob("*.md")):
            if _DAY.fullmatch(file.stem):
                path = f"memory/{file.name}"
                try:
                    read = read_page(self.root, path)
                except UnreadableFileError as exc:
                    self._problems.append(FileProblem(path, exc.message))
                    continue
                lines = MarkdownPage.parse(read.data).lines
                days.append(_JournalDay(file.stem, read.sha256, tuple(line.strip() for line in lines)))
        return days

    async def _choose(self, day: _JournalDay) -> list[_Kept]:
        marked = {n: text for n, line in enumerate(day.lines, 1) if (text := _marked(line))}
        chosen: list[_Kept] = []
        if self.model is not None and any(day.lines):
            chosen = await ask(MeteredChatModel(self.model, self), self._question(day))
        cited = {n for item in chosen for n in item.lines}
        return chosen + [_Kept(content=text, lines=(n,)) for n, text in marked.items() if n not in cited]

    def _question(self, day: _JournalDay) -> JsonQuestion[list[_Kept]]:
        statements = self._shown_statements()
        shown = [
            json_line({"n": n, "text": read_content(statement.shown)}) for n, statement in enumerate(statements, 1)
        ]
        lines, size = dict[int, str](), 0
        for n, line in enumerate(day.lines, 1):
            size += len(line)
            if size > _SHOWN_CHARS:
                told = f"is long: a model was shown its lines 1 to {n - 1} alone; divide what follows among other days"
                self._problems.append(FileProblem(day.path, told))
                break
            if line:
                lines[n] = json_line({"n": n, "text": line})
        language = self.language or prompt_language(day.lines)
        return JsonQuestion(
            system=load_prompt("reme_core.files", "consolidate", language).fill({}),
            user="\n".join(
                (
                    fence("day", day.day),
                    fence("statements", "\n".join(shown)),
                    fence("journal", "\n".join(lines.values())),
                )
            ),
            schema=_SCHEMA,
            language=language,
            read=lambda value: _read_answer(value, lines.keys(), len(statements)),
        )

    def _shown_statements(self) -> Sequence[Statement]:
        return self._page.statements[-_SHOWN_STATEMENTS:]

    def _take(self, item: _Kept, at: datetime) -> None:
        """Take an item over, unless a statement says the same."""
        key = _key(item.content)
        if key in self._kept:
            return
        old = None if item.replaces is None else self._shown_statements()[item.replaces - 1]
        memory_id = new_line_id() if old is None else old.memory_id
        if old is None or memory_id is None or memory_id in self._changed:
            memory_id = new_line_id()
            self._new[memory_id] = item.content, at
            self._edit.added.append(statement_line(memory_id, item.content))
        else:
            self._changed[memory_id] = item.content, at
            entry = Entry(memory_id, old.line, old.line, "", is_passage=False)
            self._edit.replaced.append((entry, [statement_line(memory_id, item.content)]))
        self._kept[key] = Statement(0, item.content, memory_id)

    def _difference(self) -> str:
        before, after = (
            page.print().decode().splitlines() for page in (self._page, apply_edit(self._page, self._edit))
        )
        return "\n".join(difflib.unified_diff(before, after, MEMORY_PAGE, MEMORY_PAGE, lineterm=""))

    async def _write(self, days: Sequence[_JournalDay]) -> str | None:
        """Write the run, then that these days are done: after a crash between the two they are looked at again."""
        run_id, now = new_id(), self.clock.now()
        puts = await self._puts()
        if puts:
            batch = WriteBatch(puts=puts, reason="what lasts of the journal", run_id=run_id, actor=AUTHOR, at=now)
            await self.store.put(self.index.scope, batch)
        marks = [
            PutItem(
                address=self._place(day),
                value={"sha256": day.sha256, "with_model": self.model is not None},
                owner=self.index.scope,
            )
            for day in days
        ]
        if marks:
            await self.store.write_items(SERVICE_SPACE, WriteItems(writes=marks, at=now))
        return run_id if puts else None

    async def _puts(self) -> list[PutMemory]:
        found = await find_memories(self.store, self.index.scope, list(self._changed))
        puts = [
            added_memory(memory_id, OWN_TARGET, content, self._known(at))
            for memory_id, (content, at) in self._new.items()
        ]
        puts += [
            changed_memory(memory, OWN_TARGET, content, memory.when_to_use, self._known(self.clock.now()))
            for memory_id, (content, _) in self._changed.items()
            if (memory := found.get(memory_id)) is not None
        ]
        return [replace(put, memory=put.memory.model_copy(update={"author": AUTHOR})) for put in puts]

    def _known(self, at: datetime) -> Known:
        return Known(
            scope=self.index.scope,
            memories={},
            marks={},
            elsewhere=frozenset(),
            at=at,
            wants_vectors=self.wants_vectors,
        )

    def _place(self, day: _JournalDay) -> ItemAddress:
        return ItemAddress(namespace=(_DONE, self.index.folder_id), key=day.day)


def _read_answer(value: JsonValue, lines: AbstractSet[int], statements: int) -> list[_Kept]:
    """Read what a model chose; what names no line of the journal is nobody's and left out (ValueError)."""
    answer = _Answer.model_validate(value)
    for item in answer.keep:
        if item.replaces is not None and not 1 <= item.replaces <= statements:
            msg = f"replaces: there is no statement {item.replaces}; write null for something new"
            raise ValueError(msg)
    return [item for item in answer.keep if not lines.isdisjoint(item.lines)]


def _marked(line: str) -> str:
    """Return what a line with the tag says, without the tag and the mark of a list; "" for another line."""
    return " ".join(_TAG.sub("", _BULLET.sub("", line)).split()) if _TAG.search(line) else ""


def _key(content: str) -> str:
    return normalise_content(content) or content
