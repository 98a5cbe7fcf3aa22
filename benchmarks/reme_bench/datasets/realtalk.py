"""REALTALK: ten chats of real people over three weeks, 728 questions (Lee and others 2025, arXiv 2502.13270)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from reme_bench.conversations import Conversation
from reme_bench.datasets.dialogues import Qa, chat
from reme_bench.datasets.source import Source, read_model

KINDS = {1: "multi-hop", 2: "temporal", 3: "commonsense"}
_TIME = "%d.%m.%Y, %H:%M:%S"
_NUMBER = re.compile(r"Chat_(\d+)_")


class _Names(BaseModel):
    speaker_1: str
    speaker_2: str


class _Chat(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: _Names
    qa: list[Qa]


def parts(path: Path) -> list[Path]:
    """Name the chats of a folder in the order of their names, or the one file given."""
    return sorted(path.glob("Chat_*.json")) if path.is_dir() else [path]


def read(path: Path) -> Iterator[Conversation]:
    """Read a folder of chats, or one of them, in the order of their numbers."""
    for file in sorted(parts(path), key=_number):
        given = read_model(file, _Chat)
        talk = {key: value for key, value in (given.model_extra or {}).items() if not key.endswith("_date_time")}
        yield chat(file.stem, talk, given.name.speaker_1, given.qa, KINDS, _TIME)


def _number(path: Path) -> tuple[int, str]:
    match = _NUMBER.match(path.name)
    return int(match[1]) if match else 0, path.name


SOURCE = Source(
    name="realtalk",
    title="REALTALK",
    files=("the folder data, with Chat_1_Emi_Elise.json and nine others",),
    where="https://github.com/danny911kr/REALTALK",
    licence="none is stated by its authors: for evaluation alone here",
    form="a folder of Chat_*.json, each with name, session_1, ... and qa",
    read=read,
    parts=parts,
    # Of the listing of the ten files at revision b903e06.
    checksums={"78a7b20e36fd39c39bd60d00d8040f9a1330a9834119f24b068ff9cd994ecfce": "data at b903e06"},
)
