"""`reme blob`: an image of a message, saved as a file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from reme_core import ReMe
from reme_core.schema.blobs import blob_reference
from tests.unit.cli.conftest import Reme

PNG = b"\x89PNG\r\n\x1a\nsmall"
REF = blob_reference(PNG)


async def keep(folder: Path) -> None:
    async with ReMe("default", folder, llm=None, embedding=None) as memory:
        said = {
            "message_id": "m1",
            "role": "user",
            "content": [{"type": "image", "data": PNG, "caption": "a red door"}],
        }
        await memory.summary([said], user_id="ana")


def test_an_image_is_named_by_show_and_saved_once(reme: Reme, tmp_path: Path) -> None:
    asyncio.run(keep(tmp_path / ".reme"))
    assert reme("show", "m1", "--user", "ana").out.count(REF) == 1
    file = tmp_path / "door.png"
    assert "image/png" in reme("blob", REF, "--output", str(file), "--user", "ana").out
    assert file.read_bytes() == PNG
    assert reme("blob", REF, "-o", str(file), "--user", "ana").code == 2
    assert reme("blob", REF, "-o", str(file), "--force", "--user", "ana", "--json").value["bytes"] == len(PNG)
    other = reme("blob", REF, "-o", str(tmp_path / "other"), "--user", "bob")
    assert other.code != 0
    assert not (tmp_path / "other").exists()
    assert "1 (13 bytes)" in reme("stats", "--user", "ana").out


def test_no_image_is_saved_over_the_memory_and_a_link_stays_one(reme: Reme, tmp_path: Path) -> None:
    asyncio.run(keep(tmp_path / ".reme"))
    database, file, link = tmp_path / ".reme" / "memory.db", tmp_path / "door.png", tmp_path / "link.png"
    refused = reme("blob", REF, "-o", str(database), "--force", "--user", "ana")
    assert (refused.code != 0, "SQLite database" in refused.err) == (True, True)
    file.write_bytes(b"older")
    link.symlink_to(file)
    assert reme("blob", REF, "-o", str(link), "--force", "--user", "ana").code == 0
    assert (link.is_symlink(), file.read_bytes()) == (True, PNG)


def test_a_file_goes_to_standard_output_alone(reme: Reme, tmp_path: Path) -> None:
    async def keep_text() -> None:
        async with ReMe("default", tmp_path / ".reme", llm=None, embedding=None) as memory:
            said = {"role": "user", "content": [{"type": "file", "data": b"a;b", "name": "list.csv"}]}
            await memory.summary([said], user_id="ana")

    asyncio.run(keep_text())
    done = reme("blob", blob_reference(b"a;b"), "--output", "-", "--user", "ana")
    assert (done.code, done.out) == (0, "a;b")
    assert "3 bytes" in done.err
    assert reme("blob", blob_reference(b"a;b"), "-o", "-", "--json", "--user", "ana").code == 2
    assert not (tmp_path / "-").exists()


def test_a_message_that_nothing_is_read_of_is_shown_by_what_it_holds(reme: Reme, tmp_path: Path) -> None:
    async def keep_thoughts() -> None:
        async with ReMe("default", tmp_path / ".reme", llm=None, embedding=None) as memory:
            thoughts = {"type": "other", "kind": "thinking", "data": {"thinking": "hidden"}}
            await memory.summary([{"message_id": "m1", "role": "assistant", "content": [thoughts]}], user_id="ana")

    asyncio.run(keep_thoughts())
    assert "[thinking]" in reme("show", "m1", "--user", "ana").out.splitlines()[1]
