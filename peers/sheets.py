"""Sheets for readers who answer from the notes of one system each, and for a judge who sees no system's name."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from reme_bench.conversations import Conversation

from peers.join import Output

# Characters of a sheet: what a reader takes in at once.
SHEET_CHARS = 95_000
_SEED = 7


def write_sheets(folder: Path, outputs: Mapping[str, Output], conversations: Sequence[Conversation]) -> str:
    """Write FOLDER/SYSTEM/notes_1.txt, ... for each system, and FOLDER/gold.json for the judge's sheet."""
    asked = {q.question_id: q for talk in conversations for q in talk.questions if q.gold}
    for name, output in outputs.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        parts = [
            f"##### QUESTION {answered['question_id']}\nNotes:\n"
            + "\n".join(note["line"] for note in answered["notes"])
            + f"\n\nQuestion: {asked[answered['question_id']].text}\n\n"
            for talk in output["conversations"]
            for answered in talk["questions"]
            if answered["question_id"] in asked
        ]
        for number, sheet in enumerate(_sheets(parts), 1):
            (folder / name / f"notes_{number}.txt").write_text(sheet, encoding="utf-8")
    gold = {question_id: {"question": q.text, "gold": q.gold} for question_id, q in asked.items()}
    _write(folder / "gold.json", gold)
    return f"{len(asked)} questions for {len(outputs)} systems in {folder}; answers go to FOLDER/SYSTEM/answers.json"


def _sheets(parts: Sequence[str]) -> Iterator[str]:
    text = ""
    for part in parts:
        if text and len(text) + len(part) > SHEET_CHARS:
            yield text
            text = ""
        text += part
    if text:
        yield text


def write_judge(folder: Path) -> str:
    """Write FOLDER/judge/sheet_all.txt, the answers of each question in an order of chance, and FOLDER/key.json."""
    gold = json.loads((folder / "gold.json").read_text(encoding="utf-8"))
    answers = {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*/answers.json")}
    chance, key, names = random.Random(_SEED), {}, sorted(answers)
    blocks = []
    for question_id, told in gold.items():
        key[question_id] = order = chance.sample(names, len(names))
        lines = [f"{chr(ord('a') + place)}: {answers[name].get(question_id, '')}" for place, name in enumerate(order)]
        blocks.append(
            "\n".join([f"##### {question_id}", f"Question: {told['question']}", f"Gold: {told['gold']}", *lines])
        )
    (folder / "judge").mkdir(exist_ok=True)
    (folder / "judge" / "sheet_all.txt").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    _write(folder / "key.json", key)
    return f"{len(gold)} questions, {len(names)} systems: marks go to {folder}/judge/marks_all.json"


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")
