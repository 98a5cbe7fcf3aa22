"""The tools that write a file and change a text in one."""

from __future__ import annotations

from typing import Annotated, Literal, assert_never

from pydantic import Field

from reme_core.errors import ToolFeedback
from reme_core.ports import ToolContext
from reme_core.schema.checks import Text
from reme_core.text import fence
from reme_core.tools.base import ToolItem
from reme_core.tools.files.base import PATH_HELP, FileMemoryOp, numbered, split_lines
from reme_core.tools.files.paths import shown_path
from reme_core.tools.files.root import FileRoot
from reme_core.tools.text_edits import lines_of

_SHOWN_PLACES = 20
_AROUND = 2  # lines shown on either side of a change


class WriteFileItem(ToolItem):
    """What is to be written."""

    path: Text = Field(description=f"{PATH_HELP} Folders on the way are made.")
    content: Text = Field(description="The text: all of the file, or what comes to its end.")
    mode: Literal["create", "overwrite", "append"] = Field(
        default="create",
        description="create: a new file, and an existing one is left as it is; overwrite: in place of what there is; "
        "append: at the end, on a line of its own.",
    )


class WriteFileOp(FileMemoryOp[WriteFileItem]):
    """Writes a text file whole, or adds to its end."""

    name = "write_file"
    description = "Write a text file of the folder: a new one, over an existing one, or at its end."
    item = WriteFileItem

    def work(self, files: FileRoot, item: WriteFileItem, context: ToolContext) -> str:
        """Write it; see `FileMemoryOp.work`."""

        def change(old: str | None) -> str:
            match item.mode:
                case "create" | "overwrite":
                    return item.content
                case "append":
                    return item.content if not old else f"{old}{'' if old.endswith(chr(10)) else chr(10)}{item.content}"
                case _:
                    assert_never(item.mode)

        text = files.write_text(item.path, change, only_new=item.mode == "create")
        did = {"create": "created", "overwrite": "written", "append": "added to"}[item.mode]
        return f"{did}: {shown_path(item.path)}, now {len(split_lines(text)):,} lines"


class EditFileItem(ToolItem):
    """What is to be changed."""

    path: Text = Field(description=PATH_HELP)
    old_text: Annotated[Text, Field(min_length=1)] = Field(
        description="The text to replace, exactly as it stands in the file, without the numbers of lines."
    )
    new_text: Text = Field(description="What stands in its place; may be empty.")
    replace_all: bool = Field(default=False, description="Replace it wherever it stands; else it must stand once.")


class EditFileOp(FileMemoryOp[EditFileItem]):
    """Replaces a text in a file."""

    name = "edit_file"
    description = "Replace a text in a file of the folder. All other text stays as it is."
    item = EditFileItem

    def work(self, files: FileRoot, item: EditFileItem, context: ToolContext) -> str:
        """Replace it; see `FileMemoryOp.work`."""
        place = 0

        def change(old: str | None) -> str:
            nonlocal place
            if old is None:
                msg = (
                    f"{shown_path(item.path)} does not exist: list the folder to see what there is, or write a new file"
                )
                raise ToolFeedback(msg)
            wanted, instead = _with_ends_of(old, item.old_text), _with_ends_of(old, item.new_text)
            _check_places(old, wanted, item)
            place = old.count("\n", 0, old.index(wanted))
            return old.replace(wanted, instead)

        lines = split_lines(files.write_text(item.path, change))
        first, end = max(0, place - _AROUND), place + item.new_text.count("\n") + 1 + _AROUND
        shown = "\n".join(numbered(lines[first:end], first + 1))
        return (
            f"changed: {shown_path(item.path)}, now {len(lines):,} lines:\n{fence('file', shown[: self.limit_chars])}"
        )


def _with_ends_of(file: str, text: str) -> str:
    """Write the line ends of a text as a file has them: models write a line feed alone."""
    return text.replace("\n", "\r\n") if "\r\n" in file and "\r" not in text else text


def _check_places(text: str, wanted: str, item: EditFileItem) -> None:
    count = text.count(wanted)
    if count == 0:
        msg = f"nothing was changed: old_text does not stand in {shown_path(item.path)}: read it and copy it exactly"
        raise ToolFeedback(msg)
    if count > 1 and not item.replace_all:
        places = ", ".join(map(str, lines_of(text, wanted, limit=_SHOWN_PLACES)))
        where = f"old_text stands {count} times in {shown_path(item.path)} (lines {places})"
        msg = f"nothing was changed: {where}: take more of the text around it, or replace_all=true"
        raise ToolFeedback(msg)
