"""The benchmark of reranking: requests as files, answers beside them, and figures that hold."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TALK = ["Tea, tea, tea, says Ben about tea.", "Ana drinks oolong.", "Ben talks of tea again.", "Good night."]


@pytest.fixture
def rerank(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("rerank")


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Path]:
    messages = [
        {"message_id": f"m{n}", "role": "user", "name": "Eve", "content": text, "created_at": f"2024-01-01T10:0{n}:00"}
        for n, text in enumerate(TALK)
    ]
    question = {
        "question": "Which tea does Ana drink, says Ben?",
        "evidence": ["m1"],
        "answer": "oolong",
        "category": 4,
    }
    for name, conversation in (("seen", "26"), ("unseen", "43")):
        talk = {
            "conversation": conversation,
            "sessions": [{"session_id": "s", "messages": messages}],
            "questions": [
                {**question, "question_id": f"{name}/0"},
                {**question, "category": 5},
                {**question, "evidence": []},
            ],
        }
        (tmp_path / f"{name}.json").write_text(json.dumps([talk]))
    return {name: tmp_path / f"{name}.json" for name in ("seen", "unseen")}


def test_only_answerable_questions_of_conversations_not_looked_at_are_drawn(rerank: Any, data: Any) -> None:
    assert [item.question["question_id"] for item in rerank.sample(data)] == ["unseen/0"]


def test_answers_are_asked_for_and_scored_beside_a_perfect_order(
    rerank: Any, data: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    items, folder = rerank.sample(data), tmp_path / "requests"
    assert rerank.ask(items, folder) == 0
    assert rerank.ask(items, folder) == 2  # never over what is there
    [request] = [json.loads(path.read_text()) for path in folder.iterdir()]
    assert request["response_format"]["json_schema"]["name"] == "order"
    lines = [json.loads(line) for line in request["messages"][1]["content"].splitlines() if line.startswith('{"n"')]
    assert rerank.score(items, folder, None) == 2
    assert "1 answers are missing" in capsys.readouterr().out

    right = next(line["n"] for line in lines if "oolong" in line["text"])
    (folder / "0001.answer").write_text(f'{{"order": [{right}]}}\n')
    (folder / "0001.request.json").rename(folder / "0001.request.json.taken")
    assert rerank.score(items, folder, tmp_path / "out.json") == 0
    written = json.loads((tmp_path / "out.json").read_text())
    assert [(line["reranked"], line["ceiling"]) for line in written["table"][:3]] == [(100.0, 100.0)] * 3

    (folder / "0001.answer").write_text("I don't know.")
    assert rerank.score(items, folder, tmp_path / "out.json") == 0
    assert "keeps the plain order: 0001" in capsys.readouterr().out

    (folder / "0001.request.json.taken").write_text(json.dumps({**request, "model": "another"}))
    assert rerank.score(items, folder, None) == 2
    assert "ask again" in capsys.readouterr().out


def test_an_interval_is_of_pairs(rerank: Any) -> None:
    rows = [
        {"data": "d", "plain": (n % 2, 0.0, float("nan")), "reranked": (n % 2, 1.0, 0.5), "ceiling": (1.0, 1.0, 1.0)}
        for n in range(20)
    ]
    rows[0] = {**rows[0], "plain": (0.0, 0.0, 0.5)}
    first, second, third = rerank.table(rows, scored=True)[:3]
    assert (first["gain"], first["interval"]) == (0.0, (0.0, 0.0))
    assert (second["gain"], second["interval"]) == (100.0, (100.0, 100.0))
    assert (third["questions"], third["gain"]) == (1, 0.0)
