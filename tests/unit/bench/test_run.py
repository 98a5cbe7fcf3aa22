"""A run from a file to a file: rows, sums, differences, and what the command says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from reme_bench import runner
from reme_bench.datasets import SOURCES, WrongFileError, load
from reme_bench.evidence import Found, Question, figures_of, recall_at, tokens_to
from reme_bench.results import Marks, Results, ResultsFileError, Row, System
from reme_bench.summary import ABSTENTION, auroc_interval, merged, summarised
from reme_bench.systems import bm25, fused
from reme_bench.tables import results_table

from reme_core import Hit
from reme_core.cli import ExitCode, main
from reme_core.testing import HashedEmbedder, ScriptedChatModel

DEMO = Path(__file__).parents[3] / "examples" / "demo_conversation.json"
TALK = {
    "conversation": "talk",
    "sessions": [
        {
            "session_id": str(day),
            "messages": [{"message_id": f"{day}a", "role": "user", "content": text, "created_at": f"2024-03-0{day}"}],
        }
        for day, text in ((1, "My lease ends in August."), (2, "My lease was prolonged to December."), (3, "It rains."))
    ],
    "questions": [
        {"question": "When does my lease end?", "category": "knowledge_update", "evidence": ["1a", "2a"],
         "answer": "December"},
        {"question": "What is my salary?", "category": "abstention", "evidence": []},
    ],
}  # fmt: skip


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(TALK))
    return path


def rows_of(results: Results, system: str) -> list[Row]:
    return [row for row in results.rows if row.system == system]


async def test_systems_and_baselines_are_measured_over_one_file(talk: Path) -> None:
    results = await runner.run(load(SOURCES["own"], talk), embedder=HashedEmbedder())
    assert [(system.name, system.kind) for system in results.systems] == [
        ("reme, words alone", "reme"),
        ("reme, with vectors", "reme"),
        ("BM25", "baseline"),
        ("cosine", "baseline"),
        ("RRF", "baseline"),
    ]
    assert (results.dataset.conversations, results.dataset.messages, results.dataset.questions) == (1, 3, 2)
    for system in results.systems:
        [update, never] = rows_of(results, system.name)
        assert (update.figures["recall@10"], update.gold, never.figures) == (1.0, "December", {})
        assert "newest first" in update.figures
        assert system.search_ms is not None
        assert bool(system.not_measured) is (system.kind == "baseline")
    ours = results.systems[0]
    assert (ours.bytes or 0) > 0
    assert ours.append_ms is not None
    assert {(pair.system, pair.baseline) for pair in results.paired} == {
        (name, plain) for name in ("reme, words alone", "reme, with vectors") for plain in ("BM25", "cosine", "RRF")
    }
    assert "reme, with vectors" in results_table(results)


async def test_a_conversation_in_which_nothing_is_said_is_measured_too(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps({"sessions": [], "questions": [{"question": "?", "category": "5", "evidence": []}]}))
    results = await runner.run(load(SOURCES["own"], path), embedder=HashedEmbedder())
    assert [row.ids for row in results.rows] == [()] * 5


async def test_a_model_costs_calls_and_tokens(talk: Path) -> None:
    nothing = [json.dumps({"facts": []})] * 3
    llm = ScriptedChatModel(nothing)
    results = await runner.run(load(SOURCES["own"], talk), embedder=HashedEmbedder(), llm=llm)
    system = next(system for system in results.systems if system.name == "reme, with a model")
    assert system.model_calls == 3
    assert system.prompt_tokens > 0
    assert results.systems[0].model_calls == 0
    # The system before it had the same texts embedded.
    assert [missing.what for missing in system.not_measured] == ["embedding in its times"]


def test_the_command_writes_the_file_and_tells_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.json"
    assert main(["bench", "run", "own", str(DEMO), "--no-embedding", "--json", str(path)]) == ExitCode.DONE
    results = Results.read(path)
    told = capsys.readouterr()
    assert "12 questions" in told.out
    assert results.dataset.sha256 in told.err
    ours, plain = (rows_of(results, name) for name in ("reme, words alone", "BM25"))
    recalls = [sum(row.figures["recall@10"] for row in rows) for rows in (ours, plain)]
    assert recalls[0] >= recalls[1]
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(ResultsFileError, match="version"):
        Results.read(path)
    with pytest.raises(ResultsFileError, match="can't be read: Is a directory"):
        Results.read(tmp_path)


def test_the_command_names_the_sets_and_refuses_others(talk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "sets"]) == ExitCode.DONE
    assert "locomo10.json" in capsys.readouterr().out
    assert main(["bench", "run", "locomo", str(talk), "--no-embedding"]) == ExitCode.BAD_INPUT
    assert "is not LoCoMo: wanted" in capsys.readouterr().err
    assert main(["bench", "run", "nothing", str(talk)]) == ExitCode.BAD_INPUT
    assert "known are locomo" in capsys.readouterr().err
    assert main(["bench", "fly"]) == ExitCode.BAD_INPUT
    assert main(["bench", "run", "own", str(talk), "--no-embedding", "--with-model"]) == ExitCode.BAD_INPUT
    assert "REME_LLM_MODEL" in capsys.readouterr().err


def test_a_database_that_the_environment_names_is_not_written_into(
    talk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REME_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/production")
    assert main(["bench", "run", "own", str(talk), "--no-embedding"]) == ExitCode.DONE
    assert "BM25" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "reme: interrupted"),
        (OSError(28, "No space left on device"), ExitCode.UNEXPECTED, "reme: unexpected OSError: "),
    ],
)
def test_what_ends_a_run_is_one_line_and_an_exit_code(
    talk: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    raised: BaseException,
    code: ExitCode,
    told: str,
) -> None:
    async def fails(*_: Any, **__: Any) -> None:
        raise raised

    monkeypatch.setattr(runner, "run", fails)
    assert main(["bench", "run", "own", str(talk), "--no-embedding"]) == code
    assert capsys.readouterr().err.splitlines()[-1].startswith(told)


async def test_a_question_is_asked_at_the_date_of_its_data_set_and_not_today(tmp_path: Path) -> None:
    told = [("04", "Aunt Mary came for tea."), ("11", "The boiler broke down."), ("18", "Nothing new.")]
    instance = {
        "question_id": "q",
        "question_type": "temporal-reasoning",
        "question": "What happened last week?",
        "answer": "the boiler",
        "question_date": "2023/05/18 (Thu) 12:00",
        "haystack_dates": [f"2023/05/{day} (Thu) 10:00" for day, _ in told],
        "haystack_session_ids": [day for day, _ in told],
        "haystack_sessions": [[{"role": "user", "content": text, "has_answer": day == "11"}] for day, text in told],
        "answer_session_ids": ["11"],
    }
    path = tmp_path / "s.json"
    path.write_text(json.dumps([instance]))
    results = await runner.run(load(SOURCES["longmemeval"], path))
    assert rows_of(results, "reme, words alone")[0].ids == ("q/1:0",)


def test_nothing_is_measured_that_could_not_be_kept(
    talk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "results.json"):
        assert main(["bench", "run", "own", str(talk), "--no-embedding", "--json", str(path)]) == ExitCode.BAD_INPUT
        told = capsys.readouterr().err
        assert "can't be written" in told
        assert "words alone" not in told


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--minilm", sys.executable, "--no-embedding"), "--minilm doesn't go with --no-embedding"),
        (("--minilm", "nowhere/python"), "does not exist"),
    ],
)
def test_options_that_would_be_passed_over_are_refused(
    talk: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    assert main(["bench", "run", "own", str(talk), *options]) == ExitCode.BAD_INPUT
    assert told in capsys.readouterr().err


async def test_a_file_is_read_to_its_end_before_anything_is_measured(tmp_path: Path) -> None:
    chat = {"session_1": [{"speaker": "A", "dia_id": "D1:1", "text": "Hello there."}]}
    path, told = tmp_path / "locomo10.json", list[str]()
    path.write_text(json.dumps([{"sample_id": "1", "conversation": chat, "qa": []}])[:-1] + ', {"sample_id": ')
    with pytest.raises(WrongFileError):
        await runner.run(load(SOURCES["locomo"], path), tell=told.append)
    assert told == []


def without_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "reme_bench"]:
        monkeypatch.delitem(sys.modules, name)


def test_without_the_package_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without_bench(monkeypatch)
    monkeypatch.setitem(sys.modules, "reme_bench", None)
    assert main(["bench", "sets"]) == ExitCode.BAD_INPUT
    assert "pip install reme-memory-bench" in capsys.readouterr().err


def test_other_commands_load_nothing_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_bench(monkeypatch)
    assert main(["users", "--dir", str(tmp_path)]) == ExitCode.NOT_FOUND
    assert not [name for name in sys.modules if name.startswith("reme_bench")]


def row(system: str, number: int, **more: Any) -> Row:
    told = {"conversation": "c", "question": "?", "category": "x", "answerable": True, **more}
    return Row(system=system, question_id=f"q{number}", **told)


async def test_another_system_is_put_beside_those_of_a_file(talk: Path) -> None:
    results = await runner.run(load(SOURCES["own"], talk))
    question, never = (row.model_dump(include={"conversation", "question_id"}) for row in rows_of(results, "BM25"))
    theirs = results.model_copy(
        update={
            "systems": (System(name="peer", kind="peer"),),
            "rows": (
                row("peer", 0, figures={"recall@10": 0.5}, top_score=0.1).model_copy(update=question),
                row("peer", 1, answerable=False, top_score=0.9).model_copy(update=never),
            ),
        }
    )
    both = merged(results, theirs)
    assert [system.name for system in both.systems] == ["reme, words alone", "BM25", "peer"]
    [gap] = [pair for pair in both.paired if (pair.system, pair.figure) == ("peer", "recall@10")]
    assert (gap.baseline, gap.difference, gap.n) == ("BM25", -0.5, 1)
    area = next(entry for entry in both.summary if (entry.system, entry.figure) == ("peer", ABSTENTION))
    assert (area.mean, area.n) == (0.0, 2)
    assert merged(both, theirs) == both
    with pytest.raises(ResultsFileError, match="other questions"):
        merged(results, theirs.model_copy(update={"rows": theirs.rows[:1]}))


def test_sums_are_means_by_kind_with_marks_and_tokens() -> None:
    rows = (
        row("a", 1, figures={"recall@10": 1.0, "any@5": 1.0}, tokens_to_80=100, marks=Marks(strict=1, lenient=1)),
        row("a", 2, figures={"recall@10": 0.0, "any@5": 0.0}, category="y", marks=Marks(strict=0, lenient=1)),
    )
    about = {"name": "n", "file": "f", "sha256": "0", "checksum_known": False, "licence": "l"}
    results = summarised(
        Results.model_validate(
            {
                "made_at": "2024-01-01T00:00:00Z",
                "dataset": {**about, "conversations": 1, "questions": 2, "messages": 3},
                "machine": {"python": "3", "platform": "p", "cpus": 1},
                "versions": {},
                "systems": [{"name": "a", "kind": "peer"}],
                "rows": [one.model_dump() for one in rows],
            }
        )
    )
    means = {(entry.category, entry.figure): (entry.mean, entry.n) for entry in results.summary}
    assert means["all", "recall@10"] == (0.5, 2)
    assert means["y", "recall@10"] == (0.0, 1)
    assert (means["all", "strict"], means["all", "lenient"]) == ((0.5, 2), (1.0, 2))
    assert (means["all", "tokens to 80 %"], means["all", "80 % reached"]) == ((100.0, 1), (0.5, 2))


def test_an_interval_of_an_area_narrows_with_more_questions_and_stays_within_one() -> None:
    # Hanley and McNeil 1982, table III: area .893, 51 of the one and 58 of the other kind, standard error .032.
    low, high = auroc_interval(0.893, 51, 58)
    assert (high - low) / 2 == pytest.approx(1.96 * 0.032, abs=0.003)
    assert auroc_interval(1.0, 5, 5) == (1.0, 1.0)
    assert auroc_interval(0.99, 3, 3)[1] == 1.0


def hit(text: str, *ids: str) -> Hit:
    return Hit(memory=text, layer="message", score=0.5, message_ids=ids)


def test_tokens_are_counted_down_to_where_the_evidence_is_held() -> None:
    question = Question("c", "q", "?", "x", {"a": "green tea", "b": "black coffee"})
    ranking = [hit("green tea", "a"), hit("something else", "x"), hit("black coffee", "b"), hit("more", "y")]
    assert tokens_to(0.5, ranking, question) == 3
    assert tokens_to(0.8, ranking, question) == 3 + 4 + 3
    assert tokens_to(0.8, ranking[:2], question) is None


def test_a_session_counts_once_whichever_of_its_messages_is_found() -> None:
    label_of = {"s/1": "s", "s/2": "s"}
    question = Question("c", "q", "?", "x", {"s": "green tea", "t": "coffee"}, label_of=label_of)
    assert recall_at(question.labels(["x", "s/2", "s/1"]), question.evidence.keys(), 3) == 0.5
    found = [hit("green", "s/1"), hit("tea", "s/2")]
    figures = figures_of(Found(found, {512: found, 1024: found, 2048: found}), question)
    assert (figures["recall@5"], figures["evidence in 512"]) == (0.5, 0.5)


def test_a_fusion_puts_first_what_both_orders_have_high(talk: Path) -> None:
    [conversation] = load(SOURCES["own"], talk)
    backwards = lambda turns: lambda question: ((turn, 0.0) for turn in reversed(turns))  # noqa: E731  # an order
    ranked = fused(bm25, backwards)(conversation.turns)("Is the lease prolonged?")
    assert next(turn.message_id for turn, _ in ranked) == "talk/2a"
