"""LoCoMo: ten long chats of two people, 1,986 questions (Maharana and others 2024, arXiv 2402.17753)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, JsonValue

from reme_bench.conversations import Conversation
from reme_bench.datasets.dialogues import Qa, chat
from reme_bench.datasets.source import Source, json_items

# Category 5 is adversarial: its evidence only looks like an answer.
KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
_TIME = "%I:%M %p on %d %B, %Y"


class _Sample(BaseModel):
    sample_id: str
    conversation: dict[str, JsonValue]
    qa: list[Qa]


def read(path: Path) -> Iterator[Conversation]:
    """Read the file as published."""
    for sample in json_items(path, _Sample):
        first = str(sample.conversation.get("speaker_a", ""))
        yield chat(sample.sample_id, sample.conversation, first, sample.qa, KINDS, _TIME)


SOURCE = Source(
    name="locomo",
    title="LoCoMo",
    files=("locomo10.json",),
    where="https://github.com/snap-research/locomo (data/locomo10.json)",
    licence="CC BY-NC 4.0: no commercial use, and for evaluation alone here",
    form="a JSON list of samples with sample_id, conversation (session_1, ...) and qa",
    read=read,
    checksums={"79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4": "locomo10.json"},
)
