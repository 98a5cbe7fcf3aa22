"""Pages are written over what was read, or not at all; what is refused says what to do."""

from __future__ import annotations

import errno
import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reme_core.errors import ConflictError, StorageFullError, StoreAccessError
from reme_core.files import folder
from reme_core.files.folder import UnreadableFileError, read_page
from reme_core.files.writer import keep_both, write_page


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_page_is_written_over_what_was_read_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"old")
    path.chmod(0o644)
    write_page(path, b"new", expected=sha(b"old"))
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [item.name for item in tmp_path.iterdir()] == ["a.md"]


@pytest.mark.parametrize("expected", [None, "0" * 64])
def test_a_page_that_says_something_else_by_now_is_not_written(tmp_path: Path, expected: str | None) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"theirs")
    with pytest.raises(ConflictError, match="read it again"):
        write_page(path, b"ours", expected=expected)
    assert path.read_bytes() == b"theirs"


def test_a_page_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    with pytest.raises(ConflictError, match="gone"):
        write_page(tmp_path / "a.md", b"ours", expected=sha(b"old"))
    assert list(tmp_path.iterdir()) == []


def test_what_an_editor_wrote_into_the_replaced_file_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"old")
    editor = path.open("ab")
    replace = Path.replace

    def late(draft: Path, target: Path) -> Path:
        editor.write(b" and theirs")
        editor.flush()
        return replace(draft, target)

    monkeypatch.setattr(Path, "replace", late)
    with editor, pytest.raises(ConflictError, match="conflict"):
        write_page(path, b"ours", expected=sha(b"old"))
    [copy] = [item for item in tmp_path.iterdir() if item != path]
    assert path.read_bytes() == b"ours"
    assert copy.read_bytes().startswith(b"old and theirs")


def test_copies_of_conflicts_are_named_by_their_minute_and_never_replace_each_other(tmp_path: Path) -> None:
    at = datetime(2026, 11, 22, 10, 42, tzinfo=UTC)
    names = [keep_both(tmp_path / "a.md", data, at).name for data in (b"one", b"two")]
    assert names == ["a (conflict 2026-11-22 1042).md", "a (conflict 2026-11-22 1042 2).md"]
    assert (tmp_path / names[0]).read_bytes() == b"one"


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [(errno.ENOSPC, StorageFullError, "free some"), (errno.EACCES, StoreAccessError, "permissions")],
)
def test_a_page_that_the_system_refuses_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception], words: str
) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"old")

    def refuse(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(folder.os, "fsync", refuse)
    with pytest.raises(kind, match=words):
        write_page(path, b"new", expected=sha(b"old"))
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.md"]


def test_a_page_that_changes_while_it_is_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, status = tmp_path / "a.md", os.fstat
    path.write_bytes(b"x")

    def growing(descriptor: int) -> os.stat_result:
        with path.open("ab") as file:
            file.write(b"x")
        return status(descriptor)

    monkeypatch.setattr(folder.os, "fstat", growing)
    with pytest.raises(UnreadableFileError, match="changes while it is read"):
        read_page(tmp_path, "a.md")


@pytest.mark.skipif(os.name == "nt", reason="there are no named pipes")
def test_a_named_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")
    with pytest.raises(UnreadableFileError, match="regular"):
        read_page(tmp_path, "a.md")


@pytest.mark.skipif(os.name == "nt", reason="nobody takes turns there")
def test_who_waits_for_the_disk_keeps_nobody_else_from_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, others = os.fsync, ["b.md", "c.md"]

    def slow(descriptor: int) -> None:
        if others:
            write_page(tmp_path / others.pop(), b"theirs", expected=None)
        sync(descriptor)

    monkeypatch.setattr(folder.os, "fsync", slow)
    write_page(tmp_path / "a.md", b"ours", expected=None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.md", "b.md", "c.md"]
