"""Trees of other makers become memories with file and line; the second time adds nothing, and no tree is changed.

The trees are fixtures of the documented forms (the pages are named in docs/files.md), not copies of anybody's folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reme_core import Memory, ReMe
from reme_core.errors import InvalidInputError, StoreAccessError, StoreUnavailableError
from reme_core.ports import Store, WrappedStore, WriteBatch
from reme_core.schema import Scope, make_scope
from reme_core.testing import HashedEmbedder
from reme_core.transfer.trees.import_tree import ImportedTree, import_tree
from reme_core.transfer.trees.statement import TreeKind

NOTE = """---
title: Coffee Brewing Methods
type: note
tags: [coffee, brewing]
permalink: coffee-brewing-methods
---

# Coffee Brewing Methods

How I make it at home.

## Observations
- [method] Pour over gives more clarity than French press
- [technique] Water at 205°F extracts best #brewing #heat
- [preference] Ethiopian beans for light roasts (own taste)
  - [tip] Grind them finer
- [ ] buy a kettle
- [00:12] a line of a transcript

## Relations
- relates_to [[Coffee Bean Origins]]
- "goes well with" [[Cake]] (on Sundays)
"""

TREES: dict[TreeKind, dict[str, str]] = {
    TreeKind.BASIC_MEMORY: {
        "food/Coffee.md": NOTE,
        "plain.md": "A note without any sign.\n",
        "picture.png": "png",
        ".obsidian/app.json": "{}",
    },
    TreeKind.MEMFS: {
        "system/persona.md": '---\ndescription: "Who I am"\n---\nI am a patient agent.\n',
        "system/human.md": "---\ndescription: About the user\n---\n- Likes tea\n- Lives in Lisbon,\n  by the river\n",
        "system/memory_filesystem.md": "/\n- system/\n",
        "system/project/tooling.md": "---\ndescription: Tools\n---\nUse uv, never pip.\n",
        "reference/notes.md": "---\ndescription: Project notes\n---\n# Notes\n\nThe staging server is slow.\n",
        "skills/deploy/SKILL.md": "---\nname: deploy\ndescription: How to deploy\n---\n# Deploy\n\n1. build\n2. push\n",
        "skills/deploy/run.sh": "make\n",
    },
    TreeKind.MEMORY_MD: {
        "MEMORY.md": "# Memory\n\n- [Role](user_role.md) - works as a nurse\n- [Old](gone.md) - a page that is gone\n"
        "- Allergic to nuts\n",
        "user_role.md": "---\nname: user role\ndescription: Her work\ntype: user\n---\nWorks as a nurse at night.\n",
        "project_bus.md": "---\nname: bus project\ndescription: The bus\ntype: project\n---\n- The bus is from 1974\n",
        "memory/2026-01-31.md": "## Morning\n\nWent to the sea.\n",
    },
    TreeKind.AGENTS_MD: {
        "AGENTS.md": "# Rules\n\n## Style\n\n- Use tabs\n- Run `make test`\n  before a commit\n\n<!-- reme:begin -->\n"
        "- ours\n<!-- reme:end -->\n\nBe brief.\n\n```sh\nmake all\n\nmake clean\n```\n\n<!-- a remark -->\n",
        "web/CLAUDE.md": "@AGENTS.md\n\n- Use React\n",
        "README.md": "Not for agents.\n",
    },
    TreeKind.REME: {
        "daily/2026-03-01.md": "---\nname: '2026-03-01'\ndescription: 1 note(s) today.\n---\n\n<!-- notes:auto -->\n"
        "- [[daily/2026-03-01/moving.md]] name: moving\n<!-- /notes:auto -->\n\nI wrote this myself.\n",
        "daily/2026-03-01/moving.md": "---\nname: moving\ndescription: A move\nsession_id: s1\n---\n- Moved to Porto\n",
        "digest/procedure/release.md": "---\nname: Release\ndescription: How\n---\n1. Lint\n2. Test\n\n"
        "## Sources\n- x\n",
        "session/dialog/s1.jsonl": "{}\n",
        "resource/paper.md": "# Raw\n\nmaterial\n",
    },
}


class PutsOnce(WrappedStore):
    """Is gone after the first write."""

    writes = 0

    async def put(self, scope: Scope, batch: WriteBatch) -> list[Memory]:
        self.writes += 1
        if self.writes > 1:
            msg = "gone"
            raise StoreUnavailableError(msg)
        return await super().put(scope, batch)


def plant(root: Path, tree: dict[str, str]) -> Path:
    for path, text in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def bytes_of(root: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[ReMe]:
    async with ReMe("space", tmp_path / "store", llm=None, embedding=None) as opened:
        yield opened


async def taken(
    memory: ReMe, root: Path, *, kind: TreeKind | None = None, dry_run: bool = False, store: Store | None = None
) -> ImportedTree:
    scope = make_scope("space", "ann", shared=False)
    at = memory.clock.now()
    return await import_tree(store or memory.store, None, scope, root, kind=kind, at=at, dry_run=dry_run)


async def held(memory: ReMe) -> dict[str, Memory]:
    return {item.content: item for item in (await memory.list_memories(user_id="ann", limit=1000)).memories}


@pytest.mark.parametrize("kind", list(TreeKind))
async def test_a_tree_is_known_by_its_signs_only_read_and_adds_nothing_the_second_time(
    memory: ReMe, tmp_path: Path, kind: TreeKind
) -> None:
    root = plant(tmp_path / "tree", TREES[kind])
    before = bytes_of(root)
    planned = await taken(memory, root, dry_run=True)
    assert (await held(memory), planned.run_id) == ({}, None)
    first = await taken(memory, root)
    assert first.kind == kind
    assert first.added == planned.added
    assert len(first.added) == len(await held(memory)) == sum(first.files.values()) > 2
    second = await taken(memory, root)
    assert (second.added, second.known, second.run_id) == ((), len(first.added), None)
    assert bytes_of(root) == before
    assert first.run_id is not None
    await memory.undo(first.run_id, user_id="ann")
    assert await held(memory) == {}


async def test_observations_and_relations_keep_their_parts_and_their_place(memory: ReMe, tmp_path: Path) -> None:
    done = await taken(memory, plant(tmp_path / "tree", TREES[TreeKind.BASIC_MEMORY]))
    assert [problem.path for problem in done.left_out] == ["picture.png"]
    found = await held(memory)
    technique = found["Water at 205°F extracts best #brewing #heat"]
    assert technique.memory_target == "Coffee Brewing Methods"
    assert technique.when_to_use == "Coffee Brewing Methods › technique › brewing › heat"
    assert technique.author == "import"
    assert technique.metadata["origin"] == {
        "from": "basic-memory",
        "file": "food/Coffee.md",
        "line": 14,
        "category": "technique",
        "tags": ["brewing", "heat"],
        "note": {
            "title": "Coffee Brewing Methods",
            "type": "note",
            "tags": ["coffee", "brewing"],
            "permalink": "coffee-brewing-methods",
        },
    }
    context = found["Ethiopian beans for light roasts (own taste)"].metadata["origin"]
    assert isinstance(context, dict)
    assert context["context"] == "own taste"
    assert "Grind them finer" in found
    relation = found['"goes well with" [[Cake]] (on Sundays)'].metadata["origin"]
    assert isinstance(relation, dict)
    assert (relation["relation"], relation["to"], relation["context"]) == ("goes well with", "Cake", "on Sundays")
    for plain in ("[ ] buy a kettle", "[00:12] a line of a transcript", "How I make it at home."):
        origin = found[plain].metadata["origin"]
        assert isinstance(origin, dict)
        assert "category" not in origin
    assert found["A note without any sign."].memory_target == "plain"


async def test_pages_of_memfs_are_about_user_agent_and_skills(memory: ReMe, tmp_path: Path) -> None:
    done = await taken(memory, plant(tmp_path / "tree", TREES[TreeKind.MEMFS]))
    assert {problem.path for problem in done.left_out} == {"skills/deploy/run.sh", "system/memory_filesystem.md"}
    told = {
        (item.memory_type.value, item.memory_target, item.content, item.when_to_use)
        for item in (await held(memory)).values()
    }
    assert told == {
        ("identity", "self", "I am a patient agent.", "Who I am"),
        ("personal", "self", "Likes tea", "About the user"),
        ("personal", "self", "Lives in Lisbon,\nby the river", "About the user"),
        ("personal", "project/tooling", "Use uv, never pip.", "Tools"),
        ("personal", "reference/notes", "The staging server is slow.", "Project notes › Notes"),
        ("procedural", "deploy", "# Deploy\n\n1. build\n2. push", "How to deploy"),
    }


async def test_a_memory_page_and_the_pages_it_links_to_become_one_memory(memory: ReMe, tmp_path: Path) -> None:
    await taken(memory, plant(tmp_path / "tree", TREES[TreeKind.MEMORY_MD]))
    found = await held(memory)
    assert {content: item.memory_target for content, item in found.items()} == {
        "[Old](gone.md) - a page that is gone": "self",
        "Allergic to nuts": "self",
        "Works as a nurse at night.": "self",
        "The bus is from 1974": "bus project",
        "Went to the sea.": "self",
    }
    assert found["Went to the sea."].observed_at.isoformat() == "2026-01-31T00:00:00+00:00"
    assert found["The bus is from 1974"].when_to_use == "The bus"


async def test_what_people_tell_agents_is_taken_over_without_our_own_block(memory: ReMe, tmp_path: Path) -> None:
    await taken(memory, plant(tmp_path / "shop", TREES[TreeKind.AGENTS_MD]))
    found = await held(memory)
    assert {content: item.memory_target for content, item in found.items()} == {
        "Use tabs": "shop",
        "Run `make test`\nbefore a commit": "shop",
        "Be brief.": "shop",
        "```sh\nmake all\n\nmake clean\n```": "shop",
        "Use React": "shop/web",
    }
    origin = found["Be brief."].metadata["origin"]
    assert isinstance(origin, dict)
    assert (origin["file"], origin["line"]) == ("AGENTS.md", 13)


async def test_a_memory_that_was_changed_after_the_import_is_known_again(memory: ReMe, tmp_path: Path) -> None:
    root = plant(tmp_path / "tree", TREES[TreeKind.AGENTS_MD])
    await taken(memory, root)
    await memory.update_memory((await held(memory))["Use tabs"].memory_id, user_id="ann", content="Use four blanks")
    assert (await taken(memory, root)).added == ()
    assert "Use tabs" not in await held(memory)


async def test_a_memory_that_was_deleted_after_the_import_stays_deleted_until_that_is_undone(
    memory: ReMe, tmp_path: Path
) -> None:
    root = plant(tmp_path / "tree", TREES[TreeKind.AGENTS_MD])
    first = await taken(memory, root)
    await memory.delete_memory((await held(memory))["Use tabs"].memory_id, user_id="ann")
    again = await taken(memory, root)
    assert (again.added, "Use tabs" in await held(memory)) == ((), False)
    assert any("deleted since" in problem.message for problem in again.left_out)
    assert first.run_id is not None
    other = ReMe("space", tmp_path / "other", llm=None, embedding=None)
    run_id = (await taken(other, root)).run_id
    assert run_id is not None
    await other.undo(run_id, user_id="ann")
    assert len((await taken(other, root)).added) == len(first.added)
    await other.close()


async def test_a_line_that_was_added_later_is_the_only_one_that_comes(memory: ReMe, tmp_path: Path) -> None:
    root = plant(tmp_path / "tree", TREES[TreeKind.MEMFS])
    await taken(memory, root)
    page = root / "system" / "human.md"
    page.write_text(page.read_text().replace("- Likes tea\n", "- Has a cat\n- Likes tea\n"))
    assert len((await taken(memory, root)).added) == 1
    assert "Has a cat" in await held(memory)


async def test_an_import_that_was_interrupted_is_completed_by_the_next_one(memory: ReMe, tmp_path: Path) -> None:
    root = tmp_path / "tree"
    plant(root, {f"n{n}.md": "".join(f"- [fact] {n} of {m}\n" for m in range(50)) for n in range(50)})
    with pytest.raises(StoreUnavailableError):
        await taken(memory, root, store=PutsOnce(memory.store))
    some = len((await memory.list_memories(user_id="ann", limit=1000)).memories)
    assert some == 1000
    rest = await taken(memory, root)
    assert (len(rest.added), rest.known) == (1500, 1000)


async def test_what_is_imported_has_vectors_where_there_is_an_embedder(tmp_path: Path) -> None:
    root = plant(tmp_path / "tree", TREES[TreeKind.MEMFS])
    async with ReMe("space", tmp_path / "store", llm=None, embedding=HashedEmbedder()) as memory:
        scope, at = make_scope("space", "ann", shared=False), memory.clock.now()
        await import_tree(memory.store, memory.resting_embedder, scope, root, kind=None, at=at)
        assert (await memory.stats(user_id="ann")).waiting_for_vectors == 0
        [hit] = (await memory.retrieve("Which city is home?", user_id="ann", limit=1)).results
        assert hit.score > 0


HOSTILE: dict[str, bytes] = {
    "latin.md": b"\xff\xfe",
    "nul.md": b"- [a] b\0c\n",
    "large.md": b"- x\n" * 300_000,
    "deep.md": b"[" * 50_000 + b"\n" + b"- [" * 20_000 + b"\n",
    "blanks.md": b"# a" + b" " * 200_000 + b"x\n- [a] " + b"(" * 100_000 + b"\n",
    "head.md": b"---\ntitle: " + b"T" * 5000 + b"\ntags: [" + b"a," * 20_000 + b"]\n---\n- [a] about a long title\n",
    "open.md": b"---\ntitle: never closed\n- [a] text\n```\n- in code\n",
    "links.md": b"- up [[../../etc/passwd]]\n- [a] [[" + b"[" * 50_000 + b"\n",
    "crlf.md": b"\xef\xbb\xbf---\r\ntitle: Windows\r\n---\r\n- [os] ends lines so\r\n",
}


async def test_hostile_pages_are_told_or_taken_over_and_stop_no_other_one(memory: ReMe, tmp_path: Path) -> None:
    root = tmp_path / "tree"
    root.mkdir()
    for name, data in HOSTILE.items():
        (root / name).write_bytes(data)
    (tmp_path / "secret.md").write_text("- [a] secret\n")
    (root / "out.md").symlink_to(tmp_path / "secret.md")
    done = await taken(memory, root, kind=TreeKind.BASIC_MEMORY)
    assert {problem.path for problem in done.problems} == {"latin.md", "nul.md", "large.md", "out.md"}
    found = await held(memory)
    assert "secret" not in found
    assert found["ends lines so"].memory_target == "Windows"
    assert found["about a long title"].memory_target == "T" * 512
    assert (await taken(memory, root, kind=TreeKind.BASIC_MEMORY)).added == ()


async def test_a_folder_without_a_sign_asks_for_the_kind_and_other_places_are_refused(
    memory: ReMe, tmp_path: Path
) -> None:
    root = plant(tmp_path / "tree", {"a.md": "Just a text.\n"})
    with pytest.raises(InvalidInputError, match="--from basic-memory"):
        await taken(memory, root)
    with pytest.raises(InvalidInputError, match="no folder"):
        await taken(memory, root / "a.md")
    with pytest.raises(StoreAccessError):
        await taken(memory, root / "none")
    plant(root, {".reme/folder.json": "{}"})
    with pytest.raises(InvalidInputError, match="reme files init"):
        await taken(memory, root)
