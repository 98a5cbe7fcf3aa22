"""A user's memory as a vault of Obsidian: statements, journal and dialogues, linked with each other; a copy.

Links stand below the statements, never in them: a vault that is taken over by `reme files init` says the same.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from reme_core.files.changes import lines_of
from reme_core.files.dialogs import DIALOGS
from reme_core.files.export import make_empty, write_all
from reme_core.files.markdown import MarkdownPage, block_id, shown_content
from reme_core.files.store_changes import PageEdit, list_all
from reme_core.files.targets import KEPT_TYPES, MEMORY_PAGE, TargetPaths, new_page
from reme_core.ports import FindMessages, MemoryFilter, Store, Target
from reme_core.schema import Memory, Scope, StoredMessage
from reme_core.steps.message_lines import all_pages

_PAGE = 500
_LINKS = 5  # below one statement: as many as a person follows
_WORDS = 5  # of a name that is looked for in a text
_NAME_CHARS = 60
_WORD = re.compile(r"\w+")
_UNFIT = re.compile(r"[\[\]|#^\s]+")


@dataclass(frozen=True, slots=True)
class _Places:
    """Where a link leads: to the page of a target by its name, to a message, and to a memory, by their ids."""

    targets: Mapping[str, Sequence[str]]
    said: Mapping[str, str]
    memories: Mapping[str, str]


async def export_vault(store: Store, scope: Scope, folder: Path) -> dict[str, int]:
    """Write what a user's memory holds into an empty folder; return how many statements or messages each file has.

    Raises:
        InvalidInputError: There is something in the folder already.
        StoreError: A file can't be written.
    """
    await asyncio.to_thread(make_empty, folder)
    memories = list(reversed(await list_all(store, scope, MemoryFilter(types=tuple(KEPT_TYPES)))))
    said: list[StoredMessage] = []
    async for page in all_pages(lambda cursor: store.find_messages(scope, FindMessages(limit=_PAGE, cursor=cursor))):
        said += page.messages
    return await asyncio.to_thread(_write, folder, memories, said)


def _write(folder: Path, memories: Sequence[Memory], said: Sequence[StoredMessage]) -> dict[str, int]:
    paths = TargetPaths.of({})
    path_of = {memory.memory_id: paths.find(_target(memory)) for memory in memories}
    days = _by_day(said)
    places = _Places(
        _by_name(paths.named), _message_links(days), {key: _to(path, "mem", key) for key, path in path_of.items()}
    )
    edits: dict[str, PageEdit] = {MEMORY_PAGE: PageEdit(MarkdownPage(()))}
    counts: dict[str, int] = {}
    for memory in memories:
        path = path_of[memory.memory_id]
        edit = edits.setdefault(path, PageEdit(new_page(path, _target(memory))))
        links = _links(memory, path, places)
        edit.added += [*lines_of(memory), *([f"  - {' · '.join(links)}"] if links else [])]
        counts[path] = counts.get(path, 0) + 1
    edits[MEMORY_PAGE].added += _index(path for path in sorted(edits) if path != MEMORY_PAGE)
    for day, messages in days.items():
        path = f"{DIALOGS}/{day}.md"
        edits[path] = PageEdit(MarkdownPage(()), added=[f"# {day}", *_dialog(messages)])
        counts[path] = len(messages)
    for day, lines in _journal(memories, days, places).items():
        edits[f"memory/{day}.md"] = PageEdit(MarkdownPage(()), added=[f"# {day}", *lines])
    write_all(folder, {path: edit for path, edit in edits.items() if edit.added})
    return dict(sorted(counts.items()))


def _target(memory: Memory) -> Target:
    return Target(memory.memory_type, memory.memory_target)


def _by_day(said: Sequence[StoredMessage]) -> dict[str, list[StoredMessage]]:
    days: dict[str, list[StoredMessage]] = {}
    for stored in sorted(said, key=lambda item: item.message.created_at):
        days.setdefault(f"{stored.message.created_at:%Y-%m-%d}", []).append(stored)
    return days


def _by_name(named: Mapping[Target, str]) -> dict[str, list[str]]:
    """Return the pages of targets by the words of their names; `self` is nobody's name."""
    found: dict[str, list[str]] = {}
    for target, path in named.items():
        name = _words(target.memory_target)
        if name and name != ["self"]:
            found.setdefault(" ".join(name), []).append(path)
    return found


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _message_links(days: Mapping[str, Sequence[StoredMessage]]) -> dict[str, str]:
    """Return links to messages by their ids, and to the first message of each block by the block's."""
    links: dict[str, str] = {}
    for day, messages in days.items():
        for stored in messages:
            link = _to(f"{DIALOGS}/{day}.md", "msg", stored.message.message_id, f"said {day}")
            links[stored.message.message_id] = link
            if stored.block_id is not None:
                links.setdefault(stored.block_id, link)
    return links


def _links(memory: Memory, path: str, places: _Places) -> list[str]:
    """Return links to the targets that a statement names, and to what it was made of."""
    words = _words(memory.content)
    spans = (" ".join(words[n : n + size]) for n in range(len(words)) for size in range(1, _WORDS + 1))
    pages = [page for span in spans for page in places.targets.get(span, ()) if page != path]
    sources = [name for source in memory.sources for name in source.message_ids or (source.block_id or "",)]
    said = [places.said[name] for name in sources if name in places.said]
    return [*(_to(page) for page in dict.fromkeys(pages)), *dict.fromkeys(said)][:_LINKS]


def _index(pages: Iterator[str]) -> list[str]:
    """Lead from MEMORY.md to all other targets, by lines that are no statements."""
    lines = [f"* {_to(path)}" for path in pages]
    return ["", "## Others", "", *lines] if lines else []


def _dialog(messages: Sequence[StoredMessage]) -> Iterator[str]:
    session = None
    for stored in messages:
        if stored.session_id != session:
            session = stored.session_id
            yield from ("", f"## session {_shown(session)}", "")
        message = stored.message
        text = shown_content(message.full_text)
        yield f"- {message.created_at:%H:%M} {_shown(message.speaker)}: {text} {block_id('msg', message.message_id)}"


def _journal(
    memories: Sequence[Memory], days: Mapping[str, Sequence[StoredMessage]], places: _Places
) -> dict[str, list[str]]:
    """Tell of each day which talks there were, and what was learned."""
    lines: dict[str, list[str]] = {}
    for day, messages in days.items():
        begun = {stored.session_id: stored.message for stored in reversed(messages)}
        for session, first in reversed(begun.items()):
            heading = f"## {first.created_at:%H:%M} · session {_shown(session)}"
            lines.setdefault(day, []).extend(["", heading, "", places.said[first.message_id]])
    learned: dict[str, list[Memory]] = {}
    for memory in memories:
        learned.setdefault(f"{memory.observed_at:%Y-%m-%d}", []).append(memory)
    for day, some in learned.items():
        links = [f"* {_renamed(places.memories[memory.memory_id], memory.content)}" for memory in some]
        lines.setdefault(day, []).extend(["", "## Learned", "", *links])
    return lines


def _to(path: str, kind: str = "", name: str = "", shown: str = "") -> str:
    """Link to a page, or to a line of it."""
    place = path.removesuffix(".md")
    anchor = f"#{block_id(kind, name)}" if name else ""
    return f"[[{place}{anchor}|{_shown(shown or place.rpartition('/')[2])}]]"


def _renamed(link: str, shown: str) -> str:
    return f"{link.partition('|')[0]}|{_shown(shown)}]]"


def _shown(text: str) -> str:
    """Write a text so that it can stand in a link or a heading."""
    plain = _UNFIT.sub(" ", text).strip()
    return plain if len(plain) <= _NAME_CHARS else f"{plain[: _NAME_CHARS - 1].rstrip()}…"
