"""The memory tool answers each command in the texts of Anthropic's SDK, and bounds what that leaves open."""

from __future__ import annotations

import importlib.util
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reme_core.errors import InvalidInputError, ToolFeedback
from reme_core.ports import ToolContext
from reme_core.tools.base import check_arguments
from reme_core.tools.files import MemoryToolOp
from reme_core.tools.files.memory_commands import MemoryItem, run_command, size_text
from reme_core.tools.files.root import FileRoot

NOTES = "Line 1\nLine 2\nLine 3\nLine 4\nLine 5"
EDITED = "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
FOLDER_SIZE = "<folder>"

# What a folder holds before each command; its own links lead out of it.
FILES = {
    "notes.txt": NOTES,
    "twice.txt": "Hello\nMiddle\nHello\n",
    "dir/a.txt": "A",
    "dir/deep/b.txt": "B" * 1536,
    "empty.txt": "",
}

# command, answer; the answer of one that can't be done begins with "! ".
TABLE: list[tuple[dict[str, Any], str]] = [
    (
        {"command": "view", "path": "/memories"},
        "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:\n"
        "<folder>\t/memories\n<folder>\t/memories/dir/\n1B\t/memories/dir/a.txt\n<folder>\t/memories/dir/deep/\n"
        "0B\t/memories/empty.txt\n34B\t/memories/notes.txt\n19B\t/memories/twice.txt",
    ),
    (
        {"command": "view", "path": "/memories/dir"},
        "Here're the files and directories up to 2 levels deep in /memories/dir, excluding hidden items:\n"
        "<folder>\t/memories/dir\n1B\t/memories/dir/a.txt\n<folder>\t/memories/dir/deep/\n"
        "1.5K\t/memories/dir/deep/b.txt",
    ),
    (
        {"command": "view", "path": "/memories/notes.txt"},
        "Here's the content of /memories/notes.txt with line numbers:\n"
        "     1\tLine 1\n     2\tLine 2\n     3\tLine 3\n     4\tLine 4\n     5\tLine 5",
    ),
    (
        {"command": "view", "path": "/memories/twice.txt"},
        "Here's the content of /memories/twice.txt with line numbers:\n"
        "     1\tHello\n     2\tMiddle\n     3\tHello\n     4\t",
    ),
    (
        {"command": "view", "path": "/memories/empty.txt"},
        "Here's the content of /memories/empty.txt with line numbers:\n     1\t",
    ),
    (
        {"command": "view", "path": "/memories/notes.txt", "view_range": [2, 4]},
        "Here's the content of /memories/notes.txt with line numbers:\n     2\tLine 2\n     3\tLine 3\n     4\tLine 4",
    ),
    (
        {"command": "view", "path": "/memories/notes.txt", "view_range": [4, -1]},
        "Here's the content of /memories/notes.txt with line numbers:\n     4\tLine 4\n     5\tLine 5",
    ),
    (
        {"command": "view", "path": "/memories/notes.txt", "view_range": [0, 1]},
        "Here's the content of /memories/notes.txt with line numbers:\n     1\tLine 1",
    ),
    (
        {"command": "view", "path": "/memories/notes.txt", "view_range": [9, 12]},
        "Here's the content of /memories/notes.txt with line numbers:\n",
    ),
    (
        {"command": "view", "path": "/memories/none.txt"},
        "! The path /memories/none.txt does not exist. Please provide a valid path.",
    ),
    (
        {"command": "view", "path": "/memories/notes.txt/x"},
        "! The path /memories/notes.txt/x does not exist. Please provide a valid path.",
    ),
    ({"command": "view", "path": "/memories/pipe"}, "! Unsupported file type for /memories/pipe"),
    (
        {"command": "view", "path": "/memories/long.txt"},
        "! File /memories/long.txt exceeds maximum line limit of 999,999 lines.",
    ),
    (
        {"command": "create", "path": "/memories/new.txt", "file_text": "Hello"},
        "File created successfully at: /memories/new.txt",
    ),
    (
        {"command": "create", "path": "/memories/a/b/new.txt", "file_text": ""},
        "File created successfully at: /memories/a/b/new.txt",
    ),
    (
        {"command": "create", "path": "/memories/notes.txt", "file_text": "x"},
        "! File /memories/notes.txt already exists",
    ),
    ({"command": "create", "path": "/memories/dir", "file_text": "x"}, "! File /memories/dir already exists"),
    ({"command": "create", "path": "/memories", "file_text": "x"}, "! File /memories already exists"),
    (
        {"command": "str_replace", "path": "/memories/notes.txt", "old_str": "Line 3", "new_str": "Third\nline"},
        f"{EDITED}     1\tLine 1\n     2\tLine 2\n     3\tThird\n     4\tline\n     5\tLine 4",
    ),
    (
        {"command": "str_replace", "path": "/memories/notes.txt", "old_str": "Line 1\n", "new_str": ""},
        f"{EDITED}     1\tLine 2\n     2\tLine 3\n     3\tLine 4",
    ),
    (
        {"command": "str_replace", "path": "/memories/notes.txt", "old_str": "None", "new_str": "x"},
        "! No replacement was performed, old_str `None` did not appear verbatim in /memories/notes.txt.",
    ),
    (
        {"command": "str_replace", "path": "/memories/twice.txt", "old_str": "Hello", "new_str": "x"},
        "! No replacement was performed. Multiple occurrences of old_str `Hello` in lines: 1, 3. "
        "Please ensure it is unique",
    ),
    (
        {"command": "str_replace", "path": "/memories/none.txt", "old_str": "a", "new_str": "b"},
        "! The path /memories/none.txt does not exist. Please provide a valid path.",
    ),
    (
        {"command": "str_replace", "path": "/memories/dir", "old_str": "a", "new_str": "b"},
        "! The path /memories/dir is not a file.",
    ),
    (
        {"command": "insert", "path": "/memories/notes.txt", "insert_line": 0, "insert_text": "First\n"},
        "The file /memories/notes.txt has been edited.",
    ),
    (
        {"command": "insert", "path": "/memories/twice.txt", "insert_line": 3, "insert_text": "Last"},
        "The file /memories/twice.txt has been edited.",
    ),
    (
        {"command": "insert", "path": "/memories/empty.txt", "insert_line": 0, "insert_text": "Only"},
        "The file /memories/empty.txt has been edited.",
    ),
    (
        {"command": "insert", "path": "/memories/notes.txt", "insert_line": 6, "insert_text": "x"},
        "! Invalid `insert_line` parameter: 6. It should be within the range [0, 5].",
    ),
    (
        {"command": "insert", "path": "/memories/notes.txt", "insert_line": -1, "insert_text": "x"},
        "! Invalid `insert_line` parameter: -1. It should be within the range [0, 5].",
    ),
    (
        {"command": "insert", "path": "/memories/none.txt", "insert_line": 0, "insert_text": "x"},
        "! The path /memories/none.txt does not exist. Please provide a valid path.",
    ),
    (
        {"command": "insert", "path": "/memories/dir", "insert_line": 0, "insert_text": "x"},
        "! The path /memories/dir is not a file.",
    ),
    ({"command": "delete", "path": "/memories/notes.txt"}, "Successfully deleted /memories/notes.txt"),
    ({"command": "delete", "path": "/memories/dir"}, "Successfully deleted /memories/dir"),
    ({"command": "delete", "path": "/memories/none.txt"}, "! The path /memories/none.txt does not exist"),
    ({"command": "delete", "path": "/memories"}, "! Cannot delete the /memories directory itself"),
    ({"command": "delete", "path": "/memories/"}, "! Cannot delete the /memories directory itself"),
    (
        {"command": "rename", "old_path": "/memories/notes.txt", "new_path": "/memories/x/final.txt"},
        "Successfully renamed /memories/notes.txt to /memories/x/final.txt",
    ),
    (
        {"command": "rename", "old_path": "/memories/dir", "new_path": "/memories/folder"},
        "Successfully renamed /memories/dir to /memories/folder",
    ),
    (
        {"command": "rename", "old_path": "/memories/notes.txt", "new_path": "/memories/twice.txt"},
        "! The destination /memories/twice.txt already exists",
    ),
    (
        {"command": "rename", "old_path": "/memories/none.txt", "new_path": "/memories/new.txt"},
        "! The path /memories/none.txt does not exist",
    ),
    (
        {"command": "rename", "old_path": "/memories", "new_path": "/memories/new.txt"},
        "! Cannot rename the /memories directory itself",
    ),
    (
        {"command": "rename", "old_path": "/memories/none.txt", "new_path": "/memories"},
        "! The destination /memories already exists",
    ),
    ({"command": "view", "path": "/etc/passwd"}, "! Path must start with /memories, got: /etc/passwd"),
    ({"command": "view", "path": "notes.txt"}, "! Path must start with /memories, got: notes.txt"),
    (
        {"command": "view", "path": "/memories/../../x"},
        "! Path /memories/../../x would escape /memories directory",
    ),
    (
        {"command": "create", "path": "/memories/out/x.txt", "file_text": "x"},
        "! Path /memories/out/x.txt would escape /memories directory",
    ),
    ({"command": "view", "path": "/memories/secret"}, "! Path /memories/secret would escape /memories directory"),
    ({"command": "delete", "path": "/memories/secret"}, "! Path /memories/secret would escape /memories directory"),
    (
        {"command": "rename", "old_path": "/memories/secret", "new_path": "/memories/s"},
        "! Path /memories/secret would escape /memories directory",
    ),
    (
        {"command": "rename", "old_path": "/memories/notes.txt", "new_path": "/memories/out/n"},
        "! Path /memories/out/n would escape /memories directory",
    ),
]


def name_of(case: object) -> str | None:
    return " ".join(f"{value}"[:40] for value in case.values()) if isinstance(case, dict) else ""


def fill(folder: Path, outside: Path) -> None:
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / ".hidden").write_text("x")
    (folder / "long.txt").write_text("\n" * 1_000_000)
    os.mkfifo(folder / "pipe")
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (folder / "out").symlink_to(outside)
    (folder / "secret").symlink_to(outside / "secret.txt")


def as_told(text: str, folder: Path) -> str:
    """Put a word in the place of the size of folders, which each file system tells otherwise."""
    sizes = {
        size_text(path.stat().st_size) for path in [folder, folder / "dir", folder / "dir" / "deep"] if path.is_dir()
    }
    for size in sizes:
        text = text.replace(f"\n{size}\t/memories\n", f"\n{FOLDER_SIZE}\t/memories\n")
        for name in ["dir", "dir/", "dir/deep/"]:
            text = text.replace(f"\n{size}\t/memories/{name}\n", f"\n{FOLDER_SIZE}\t/memories/{name}\n")
    # The file that is too long for a view is there for one case alone.
    return text.replace("976.6K\t/memories/long.txt\n", "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "memories"
    fill(folder, tmp_path / "outside")
    return folder


def done(folder: Path, command: Mapping[str, object]) -> str:
    item = check_arguments("memory", MemoryItem, command)
    assert isinstance(item, MemoryItem)
    try:
        return run_command(FileRoot(folder, 100_000), item, limit_chars=24_000)
    except ToolFeedback as exc:
        return f"! {exc}"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.parametrize(("command", "answer"), TABLE, ids=name_of)
def test_each_command_answers_in_the_known_words(folder: Path, command: dict[str, Any], answer: str) -> None:
    assert as_told(done(folder, command), folder) == answer


@pytest.mark.parametrize(("command", "answer"), TABLE, ids=name_of)
def test_the_sdk_itself_answers_the_same_and_leaves_the_same_files(
    tmp_path: Path, command: dict[str, Any], answer: str
) -> None:
    pytest.importorskip("anthropic", reason="the extra anthropic is not installed")
    from anthropic.lib.tools._beta_builtin_memory_tool import BetaLocalFilesystemMemoryTool

    from reme_core.tools.files import AnthropicMemoryTool

    told: dict[str, tuple[str, dict[str, str]]] = {}
    for name in ["theirs", "ours"]:
        base = tmp_path / name
        fill(base / "memories", base / "outside")
        tool: Any = (
            BetaLocalFilesystemMemoryTool(str(base)) if name == "theirs" else AnthropicMemoryTool(base / "memories")
        )
        method = getattr(tool, command["command"])
        told[name] = (_called(method, command), contents(base / "memories"))
    assert told["ours"] == told["theirs"]
    assert as_told(told["ours"][0], tmp_path / "ours" / "memories") == answer


def _called(method: Any, command: dict[str, Any]) -> str:
    from anthropic.lib.tools import ToolError
    from anthropic.types import beta

    kind = "".join(part.capitalize() for part in command["command"].split("_"))
    given = getattr(beta, f"BetaMemoryTool20250818{kind}Command").model_validate(command)
    try:
        return str(method(given))
    except ToolError as exc:
        return f"! {exc}"


async def test_the_sdks_tools_take_what_models_write_and_can_be_cleared(folder: Path) -> None:
    pytest.importorskip("anthropic", reason="the extra anthropic is not installed")
    from anthropic.lib.tools import ToolError

    from reme_core.tools.files import AnthropicMemoryTool, AsyncAnthropicMemoryTool

    tool, later = AnthropicMemoryTool(folder, cache_control={"type": "ephemeral"}), AsyncAnthropicMemoryTool(folder)
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory", "cache_control": {"type": "ephemeral"}}
    assert "Line 1" in tool.call({"command": "view", "path": "/memories/notes.txt"})
    assert "Line 1" in await later.call({"command": "view", "path": "/memories/notes.txt"})
    for wrong in [{"command": "view"}, {"command": "chmod"}, {}, "[", None]:
        with pytest.raises(ToolError):
            tool.call(wrong)
        with pytest.raises(ToolError):
            await later.call(wrong)
    assert await later.clear_all_memory() == "All memory cleared"
    assert tool.call({"command": "view", "path": "/memories"}).count("\n") == 1
    assert names(folder) == {".hidden", "out", "secret"}
    assert (folder / "secret").read_text() == "secret"


def test_without_the_sdk_the_extra_is_named() -> None:
    if importlib.util.find_spec("anthropic") is not None:
        pytest.skip("anthropic is installed")
    from reme_core.errors import MissingExtraError
    from reme_core.tools import files

    with pytest.raises(MissingExtraError, match=r"AnthropicMemoryTool needs 'anthropic'.*reme-memory\[anthropic\]"):
        _ = files.AnthropicMemoryTool


async def test_the_tool_is_called_like_any_other_and_says_what_is_missing(folder: Path, context: ToolContext) -> None:
    tool = MemoryToolOp(root=folder)
    assert tool.schema()["function"]["name"] == "memory"  # type: ignore[index,call-overload]
    told = await tool({"command": "create", "path": "/memories/n.md", "file_text": "x", "view_range": []}, context)
    assert told == "File created successfully at: /memories/n.md"
    with pytest.raises(InvalidInputError, match="needs path, old_str, new_str: old_str, new_str is missing"):
        await tool({"command": "str_replace", "path": "/memories/n.md"}, context)


def test_files_and_paths_have_the_bounds_of_memory_stores(folder: Path) -> None:
    deep = "/memories/" + "/".join("d" * 20)
    assert done(folder, {"command": "create", "path": deep, "file_text": "x"}).startswith("File created")
    assert "has 21 names" in done(folder, {"command": "create", "path": f"{deep}/e", "file_text": "x"})
    full = {"command": "create", "path": "/memories/full.txt", "file_text": "x" * 100_000}
    assert done(folder, full).startswith("File created")
    more = {"command": "insert", "path": "/memories/full.txt", "insert_line": 0, "insert_text": "x"}
    assert done(folder, more) == (
        "! The path /memories/full.txt would have 100,003 bytes, "
        "and a file has at most 100,000 bytes: use several files"
    )
    assert "begins with a dot" in done(folder, {"command": "view", "path": "/memories/.hidden"})
    assert "can't be moved into itself" in done(
        folder, {"command": "rename", "old_path": "/memories/dir", "new_path": "/memories/dir/x"}
    )


def test_places_and_a_changed_line_without_end_are_told_in_part(folder: Path) -> None:
    (folder / "many.txt").write_text("a\n" * 40_000)
    many = {"command": "str_replace", "path": "/memories/many.txt", "old_str": "a", "new_str": "b"}
    assert len(done(folder, many)) < 6000
    (folder / "line.txt").write_text("x" * 90_000 + "needle")
    line = {"command": "str_replace", "path": "/memories/line.txt", "old_str": "needle", "new_str": "b"}
    assert len(done(folder, line)) <= 24_000
    view = done(folder, {"command": "view", "path": "/memories/line.txt"})
    assert view.endswith("x… (the rest of this line is not shown)")


def test_a_view_that_is_too_long_says_how_to_see_the_rest(folder: Path) -> None:
    (folder / "big.txt").write_text("\n".join(f"line {n}" for n in range(1, 5001)))
    first = done(folder, {"command": "view", "path": "/memories/big.txt"})
    assert len(first) < 24_200
    rest = first.rpartition("view_range ")[2].strip("[])")
    begin, end = map(int, rest.split(","))
    second = done(folder, {"command": "view", "path": "/memories/big.txt", "view_range": [begin, end]})
    assert f"{begin - 1:>6}\tline {begin - 1}\n" in first
    assert f"{begin:>6}\tline {begin}\n" in second


def test_what_is_written_is_its_owners_alone(folder: Path) -> None:
    done(folder, {"command": "create", "path": "/memories/p/new.txt", "file_text": "x"})
    assert stat.S_IMODE((folder / "p").stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "p" / "new.txt").stat().st_mode) == 0o600
