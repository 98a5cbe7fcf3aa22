"""No path, no link and no race leads a file tool out of its folder."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core import FileMemory, ReMe
from reme_core.errors import ReMeError, ToolFeedback
from reme_core.ports import ToolContext
from reme_core.testing import FixedClock
from reme_core.testing.store_values import ALICE, NOW
from reme_core.tools.base import read_arguments
from reme_core.tools.files import (
    EditFileOp,
    FileMemoryOp,
    GlobOp,
    GrepOp,
    LsOp,
    MemoryToolOp,
    ReadFileOp,
    WriteFileOp,
)

SECRET = "zqx-secret"  # noqa: S105

# What a tool is asked to do with a path.
Asked = Callable[[Path, str], tuple[FileMemoryOp[Any], dict[str, object]]]
OPERATIONS: dict[str, Asked] = {
    "read_file": lambda root, path: (ReadFileOp(root=root), {"path": path}),
    "ls": lambda root, path: (LsOp(root=root), {"path": path, "depth": 5}),
    "glob below": lambda root, path: (GlobOp(root=root), {"path": path, "pattern": "**"}),
    "glob": lambda root, path: (GlobOp(root=root), {"pattern": path}),
    "grep": lambda root, path: (GrepOp(root=root), {"path": path, "pattern": "zqx"}),
    "grep glob": lambda root, path: (GrepOp(root=root), {"glob": path, "pattern": "zqx"}),
    "create": lambda root, path: (WriteFileOp(root=root), {"path": path, "content": "pwned"}),
    "overwrite": lambda root, path: (WriteFileOp(root=root), {"path": path, "content": "pwned", "mode": "overwrite"}),
    "append": lambda root, path: (WriteFileOp(root=root), {"path": path, "content": "pwned", "mode": "append"}),
    "edit": lambda root, path: (EditFileOp(root=root), {"path": path, "old_text": "zqx", "new_text": "pwned"}),
    "memory view": lambda root, path: memory(root, command="view", path=path),
    "memory create": lambda root, path: memory(root, command="create", path=path, file_text="pwned"),
    "memory replace": lambda root, path: memory(root, command="str_replace", path=path, old_str="zqx", new_str="pwned"),
    "memory insert": lambda root, path: memory(root, command="insert", path=path, insert_line=0, insert_text="pwned"),
    "memory delete": lambda root, path: memory(root, command="delete", path=path),
    "memory rename": lambda root, path: memory(root, command="rename", old_path=path, new_path="/memories/stolen"),
    "memory rename to": lambda root, path: memory(
        root, command="rename", old_path="/memories/own.md", new_path=f"/memories/{path}"
    ),
}


def memory(root: Path, **given: object) -> tuple[FileMemoryOp[Any], dict[str, object]]:
    for name in ["path", "old_path"]:
        if name in given:
            given[name] = f"/memories/{given[name]}"
    return MemoryToolOp(root=root), given


# Paths; {outside} is the absolute path of what must stay untouched.
PATHS = [
    "..", "../", "../outside", "../outside/secret.md", "./../outside/secret.md", "sub/../../outside/secret.md",
    "sub/../../../../../../../../etc/passwd", "sub/./.././../outside/secret.md", "../notes/../outside/secret.md",
    "..//outside//secret.md", "//../outside/secret.md", "{outside}/secret.md", "/{outside}/secret.md", "{outside}",
    "/", "//", "/etc/passwd", "/proc/self/environ", "/proc/self/root{outside}/secret.md", "/dev/stdin", "/dev/zero",
    "~", "~/secret.md", "~root/.ssh/id_rsa", "$HOME/secret.md", "${{HOME}}/x", "file://{outside}/secret.md",
    "%2e%2e/outside/secret.md", "%2e%2e%2foutside%2fsecret.md", "..%2foutside%2fsecret.md", "%252e%252e/outside",
    "..\\outside\\secret.md", "sub\\..\\..\\outside\\secret.md", "\\\\server\\share\\secret.md", "C:\\secret.md",
    "..%c0%afoutside", "．．/outside/secret.md", "‥/outside/secret.md", "..\u2215outside", "..\u200b/outside",
    "\u202e../outside", "..;/outside/secret.md", "....//outside/secret.md", ".../outside", ".. /outside", " ../outside",
    "..\t/outside", "..\n/outside", "sub/..\r/outside", "\x7f../outside", "\ufeff../outside", "\ud800/../outside",
    ".git/config", ".git/hooks/pre-commit", ".reme/memory.db", "sub/.env", ".reme-0.part", "." + "." * 250 + "/x",
    "x" * 256, "é" * 128, "/".join("d" * 21), "/".join("d" * 2000), "sub/" * 500 + "../" * 600 + "outside",
    "own.md/../../outside/secret.md", "own.md/secret.md", "sub/own.md/..", "-rf", "--help", "a|b", "*/../outside/*",
    "../*", "../**", "../outs*/secret.md", "{{..,sub}}/outside", "[.][.]/outside/secret.md", "?./outside",
]  # fmt: skip

# Where links and other traps stand, and what they are.
LINKS: dict[str, Callable[[Path, Path], None]] = {
    "to_file": lambda at, outside: at.symlink_to(outside / "secret.md"),
    "to_folder": lambda at, outside: at.symlink_to(outside),
    "relative_file": lambda at, outside: at.symlink_to("../outside/secret.md"),
    "relative_folder": lambda at, outside: at.symlink_to("../outside"),
    "above": lambda at, outside: at.symlink_to(".."),
    "to_everything": lambda at, outside: at.symlink_to("/"),
    "itself": lambda at, outside: at.symlink_to(at.name),
    "dangling": lambda at, outside: at.symlink_to(outside / "planted.md"),
    "dangling_folder": lambda at, outside: at.symlink_to(outside / "planted"),
    "by_proc": lambda at, outside: at.symlink_to(f"/proc/self/root{outside}"),
    "by_cwd": lambda at, outside: at.symlink_to("/proc/self/cwd"),
    "pipe": lambda at, outside: os.mkfifo(at),
    "socket": lambda at, outside: bound(at),
}
SPOTS = [
    "{0}",
    "{0}/secret.md",
    "{0}/new.md",
    "{0}/new/deep.md",
    "{0}/outside/secret.md",
    "sub/{0}",
    "sub/chain",
    "sub/chain/secret.md",
    "{0}/../outside/secret.md",
    "sub//{0}/",
]


def bound(at: Path) -> None:
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(at.parent)  # names of sockets are short
        try:
            server.bind(at.name)
        finally:
            os.chdir(here)


@contextmanager
def trees() -> Iterator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory() as base:
        root, outside = Path(base) / "notes", Path(base) / "outside"
        (root / "sub").mkdir(parents=True)
        (root / "own.md").write_text("own\n")
        (root / "sub" / "own.md").write_text("own\n")
        (outside / "new").mkdir(parents=True)
        (outside / "secret.md").write_text(f"{SECRET}\n")
        (outside / "new" / "deep.md").write_text(f"{SECRET}\n")
        (outside / "new" / f"{SECRET}.md").touch()  # not even its name is told
        yield root, outside


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return all that is in a folder: modes, times of change, bytes."""
    found: dict[str, tuple[int, int, bytes]] = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
    return found


def attempt(operation: str, root: Path, path: str) -> str:
    """Have a tool do something with a path, and return what a model is told."""
    tool, arguments = OPERATIONS[operation](root, path)
    context = ToolContext(scope=ALICE, store=None, clock=FixedClock(NOW))  # type: ignore[arg-type]  # not asked
    try:
        item = tool.item.model_validate(read_arguments(tool, arguments).model_dump(exclude_unset=True))
        return tool.work(tool._files, item, context)
    except ToolFeedback as exc:
        return str(exc)


def check(operation: str, root: Path, outside: Path, path: str, *, before: dict[str, tuple[int, int, bytes]]) -> None:
    told = attempt(operation, root, path)
    assert SECRET not in told, f"{operation} of {path!r} told what is outside"
    assert state(outside) == before, f"{operation} of {path!r} changed what is outside"
    assert "Traceback" not in told
    assert "Errno" not in told


def test_there_are_two_hundred_attacks_each_by_every_operation() -> None:
    assert len(set(PATHS)) + len(LINKS) * len(SPOTS) >= 200


@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_path_leads_out(operation: str) -> None:
    with trees() as (root, outside):
        before, beside = state(outside), sorted(root.parent.iterdir())
        for path in PATHS:
            check(operation, root, outside, path.format(outside=outside), before=before)
        assert sorted(root.parent.iterdir()) == beside


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("link", LINKS)
def test_no_link_and_no_odd_file_leads_out(operation: str, link: str) -> None:
    with trees() as (root, outside):
        LINKS[link](root / "trap", outside)
        LINKS[link](root / "sub" / "trap", outside)
        (root / "sub" / "chain").symlink_to("trap")
        before, beside = state(outside), sorted(root.parent.iterdir())
        for spot in SPOTS:
            check(operation, root, outside, spot.format("trap"), before=before)
        assert sorted(root.parent.iterdir()) == beside


async def test_no_path_leads_a_folder_of_memory_out() -> None:
    with trees() as (root, outside), tempfile.TemporaryDirectory() as store:
        before = state(outside)
        async with ReMe("space", store, llm=None, embedding=None) as reme:
            files = FileMemory(root, user_id="ann", memory=reme)
            await files.sync()
            for path in PATHS:
                with contextlib.suppress(ReMeError):
                    assert SECRET not in (await files.memory_get(path.format(outside=outside))).text
                with contextlib.suppress(ReMeError):
                    await reme.add_memory("pwned", user_id="ann", memory_target=path.format(outside=outside)[:500])
            await files.sync()
        assert state(outside) == before
        assert all(path.resolve().is_relative_to(root.resolve()) for path in root.rglob("*"))


@pytest.mark.parametrize("place", ["memory", "dialog", "targets", "targets/personal", "AGENTS.md", "MEMORY.md"])
@pytest.mark.parametrize("link", LINKS)
async def test_no_link_leads_a_folder_of_memory_out(link: str, place: str) -> None:
    with trees() as (root, outside), tempfile.TemporaryDirectory() as store:
        (root / place).parent.mkdir(exist_ok=True)
        LINKS[link](root / place, outside)
        for name in ("2026-11-22.md", "2026-11-22.jsonl", "personal/2026-11-22.md"):
            (outside / name).parent.mkdir(exist_ok=True)
            (outside / name).write_text(f'{{"role": "user", "content": "{SECRET}"}}\n')
        before = state(outside)
        message = {"role": "user", "content": "pwned", "created_at": "2026-11-22T10:42:00Z"}
        async with ReMe("space", store, llm=None, embedding=None) as reme:
            files = FileMemory(root, user_id="ann", memory=reme)
            await reme.add_memory("pwned", user_id="ann", memory_target="2026-11-22")
            await reme.add_memory("pwned", user_id="ann")
            for _ in range(2):
                with contextlib.suppress(ReMeError):
                    await files.sync()
                with contextlib.suppress(ReMeError):
                    await files.append_journal("pwned", at="2026-11-22T10:42:00Z")
                with contextlib.suppress(ReMeError):
                    await files.add_dialog([message])
                with contextlib.suppress(ReMeError):
                    await files.write_agent_page()
                assert all(SECRET not in hit.text for hit in await files.memory_search(SECRET, min_score=0.0))
        assert state(outside) == before


_PIECES = st.sampled_from(
    [
        "..",
        ".",
        "",
        "sub",
        "trap",
        "sub/trap",
        "own.md",
        "secret.md",
        "outside",
        "new",
        "/",
        "\\",
        "~",
        "*",
        "**",
        "%2e%2e",
        "\u202e",
        " ",
    ]
)
_PATH = st.lists(st.one_of(_PIECES, st.text(max_size=4)), max_size=8).map("/".join)


@settings(deadline=None, max_examples=200)
@given(_PATH, st.sampled_from(sorted(OPERATIONS)), st.sampled_from(sorted(LINKS)))
def test_whatever_is_written_stays_in_the_folder(path: str, operation: str, link: str) -> None:
    with trees() as (root, outside):
        LINKS[link](root / "trap", outside)
        LINKS[link](root / "sub" / "trap", outside)
        check(operation, root, outside, path, before=state(outside))


# Another process, so that nothing holds it back: it exchanges what stands at a name for a link and back, all the time.
_ATTACKER = """
import os, shutil, sys
root, outside, kind = sys.argv[1:]
trap, kept, link = (os.path.join(root, name) for name in ("trap", "kept", "link"))
target = outside if kind == "folder" else os.path.join(outside, "secret.md")
def prepare():
    for path in (trap, kept, link):
        if os.path.islink(path) or os.path.isfile(path):
            os.unlink(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
    os.symlink(target, link)
    if kind == "folder":
        os.mkdir(kept)
    else:
        with open(kept, "w") as file:
            file.write("zqx own")
prepare()
print("ready", flush=True)
while True:
    try:
        for old, new in ((kept, trap), (trap, kept), (link, trap), (trap, link)):
            os.rename(old, new)
    except OSError:  # a tool has made, moved or removed one of them
        try:
            prepare()
        except OSError:
            pass
"""


@contextmanager
def attacked(root: Path, outside: Path, kind: str) -> Iterator[None]:
    command = [sys.executable, "-I", "-S", "-c", _ATTACKER, str(root), str(outside), kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as attacker:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            attacker.kill()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_folder_that_becomes_a_link_between_check_and_use_leads_nowhere(operation: str) -> None:
    with trees() as (root, outside):
        before, told = state(outside), set[str]()
        with attacked(root, outside, "folder"):
            for n in range(150):
                for path in ["trap/secret.md", "trap/new/deep.md", f"trap/new-{n}.md", "trap", "."]:
                    told.add(attempt(operation, root, path))
        assert not any(SECRET in answer for answer in told)
        assert state(outside) == before


@pytest.mark.parametrize(
    "operation", ["read_file", "grep", "overwrite", "append", "edit", "memory view", "memory insert"]
)
def test_a_file_that_becomes_a_link_between_check_and_use_leads_nowhere(operation: str) -> None:
    with trees() as (root, outside):
        before, told = state(outside), set[str]()
        with attacked(root, outside, "file"):
            attempts = 0
            while attempts < 400 or len(told) < 2:  # it was a link at one time, and something else at another
                told.add(attempt(operation, root, "trap"))
                attempts += 1
        assert not any(SECRET in answer for answer in told)
        assert state(outside) == before
