"""The commands of `reme bench` on answers, reports and tasks: what goes together, and what they write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from reme_bench.results import Results

from reme_core.cli import main
from tests.unit.bench.test_report import results, written
from tests.unit.bench.test_run import TALK
from tests.unit.bench.test_tasks import QUESTIONS, RESULTS, SCORES, make_bfcl


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["run", "own", "talk.json", "--answers", "m"], "--answers with --json"),
        (["run", "own", "talk.json", "--judge", "m"], "--judge goes with --answers"),
        (["answer", "talk.json", "--answers", "m", "--base-url", "http://127.0.0.1:9/v1"], "no file of results"),
        (["tasks", "appworld", "talk.json", "--json", "x.json"], "--data"),
    ],
)
def test_command_says_what_goes_together(
    given: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("talk.json").write_text(json.dumps(TALK))
    assert main(["bench", *given]) != 0
    assert said in capsys.readouterr().err


def test_report_is_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (given,) = written(tmp_path, one=results())
    assert main(["bench", "report", str(given), "--out", str(tmp_path / "page.html")]) == 0
    assert "page.html: a report of 1 files" in capsys.readouterr().err
    assert "LoCoMo" in (tmp_path / "page.html").read_text()
    assert main(["bench", "report", str(given), "--out", str(tmp_path / "no" / "page.html")]) != 0
    assert "No such file" in capsys.readouterr().err


def test_a_file_without_notes_is_not_taken_for_answered(capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(__file__).parents[3] / "peers" / "results.json"
    assert main(["bench", "answer", str(path), "--answers", "m", "--base-url", "http://127.0.0.1:9/v1"]) != 0
    assert "has no notes to answer from" in capsys.readouterr().err


def test_tasks_without_a_model_write_a_file_of_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_bfcl(tmp_path)
    given = [
        "bfcl",
        str(tmp_path / QUESTIONS),
        "--results",
        str(tmp_path / RESULTS),
        "--scores",
        str(tmp_path / SCORES),
    ]
    assert main(["bench", "tasks", *given, "--json", str(tmp_path / "told.json")]) == 0
    shown = capsys.readouterr().out
    assert "reme, attempts as they were" in shown
    assert "tools named" in shown
    assert "recall" not in shown
    assert "80 %" not in shown
    assert Results.read(tmp_path / "told.json").rows[-1].notes
