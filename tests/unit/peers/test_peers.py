"""The comparison with other memories: its protocol, the join of what systems wrote, and the README's table."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from reme_bench.conversations import Conversation, LabelledQuestion, Turn, conversation
from reme_bench.results import Dataset, Results

from peers.endpoint import KeptVectors, embeddings
from peers.join import BEGIN, END, Output, failed, in_readme, marked, results_of, rows_of, system_of, table
from peers.picture import picture
from peers.protocol import Note, within
from peers.sheets import write_judge, write_sheets

ROOT = Path(__file__).resolve().parents[3]
DATA = Dataset(
    name="small",
    file="small.json",
    sha256="0",
    checksum_known=False,
    licence="ours",
    conversations=1,
    questions=1,
    messages=2,
)


def talk() -> Conversation:
    turns = [
        Turn("c/m1", "c/s1", "Ann", "user", "I moved to Lisbon in May.", "2025-06-02"),
        Turn("c/m2", "c/s1", "Bob", "user", "Lovely weather.", "2025-06-02"),
    ]
    return conversation(
        "c",
        turns,
        [LabelledQuestion(question_id="c/q", text="Where to?", category="1", evidence=["c/m1"], gold="Lisbon")],
    )


def output(text: str, *ids: str) -> Output:
    note = {"text": text, "day": "2025-06-02", "ids": list(ids), "line": f"- (2025-06-02) {text}"}
    answered = {"question_id": "c/q", "ms": 2.0, "notes": [note], "ranking": list(ids)}
    told = {"conversation": "c", "writes_ms": [3.0], "bytes": 10, "questions": [answered]}
    return {"versions": {"other": "1.0"}, "not_measured": [], "conversations": [told]}


def results() -> Results:
    given = {"finds it": output("Ann: I moved to Lisbon in May.", "c/m1"), "extracts": output("Ann lives in Lisbon")}
    counts = {"model_calls": 0, "prompt_tokens": 0, "completion_tokens": 0}
    systems = [system_of(name, out, counts) for name, out in given.items()]
    rows = [row for name, out in given.items() for row in rows_of(name, out, [talk()])]
    made_at = datetime(2026, 1, 2, tzinfo=UTC)
    return results_of([*systems, failed("broken", "no such package")], rows, {"other": "1.0"}, DATA, made_at)


def test_readme_has_the_table_of_the_results_in_the_tree():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    kept = Results.read(ROOT / "peers" / "results.json")
    assert in_readme(readme, kept) == readme


def test_manual_has_the_picture_of_the_results_in_the_tree():
    kept = Results.read(ROOT / "peers" / "results.json")
    assert (ROOT / "docs" / "images" / "peers.svg").read_text(encoding="utf-8") == picture(kept)


def test_a_picture_has_every_system_that_has_the_figure_and_names_as_text():
    made = results()
    renamed = [entry.model_copy(update={"system": entry.system.replace("finds", "<b>")}) for entry in made.summary]
    drawn = picture(made.model_copy(update={"summary": renamed}))
    [first, second] = drawn.split("words in 1,024 tokens, percent")
    assert (first.count("<circle"), second.count("<circle")) == (1, 2)
    assert "&lt;b&gt; it" in first


def test_results_in_the_tree_hold_no_text_of_the_data_set():
    kept = Results.read(ROOT / "peers" / "results.json")
    assert {(row.question, row.gold, row.answer) for row in kept.rows} == {("", None, None)}


def test_a_system_is_measured_by_evidence_where_it_names_messages_and_by_words_where_not():
    figures = {row.system: row.figures for row in results().rows}
    assert figures["finds it"] == {
        "words in 1,024": 1.0,
        "evidence in 1,024": 1.0,
        "recall@5": 1.0,
        "recall@10": 1.0,
        "recall@20": 1.0,
    }
    assert figures["extracts"] == {"words in 1,024": 1.0}


def test_table_says_what_was_not_measured_and_why():
    told = table(results())
    assert "- broken: everything: no such package." in told
    assert "- extracts: evidence: it doesn't say which messages a result comes from." in told


def test_a_readme_without_its_marks_is_refused():
    with pytest.raises(ValueError, match="the table stands between them"):
        in_readme(f"{BEGIN}\n{BEGIN}\n{END}", results())


def test_budget_passes_over_what_is_too_long_and_keeps_a_line_once():
    kept = within([Note("a" * 10), Note("b" * 400), Note("a" * 10), Note("c" * 10)], 6)
    assert [note.text[0] for note in kept] == ["a", "c"]


def test_answers_go_to_a_judge_without_names_and_come_back_as_marks(tmp_path):
    given = {"one": output("Ann: I moved to Lisbon in May.", "c/m1"), "two": output("Ann lives in Lisbon")}
    write_sheets(tmp_path, given, [talk()])
    assert "Question: Where to?" in (tmp_path / "one" / "notes_1.txt").read_text()
    for name in given:
        (tmp_path / name / "answers.json").write_text(json.dumps({"c/q": f"Lisbon, says {len(name)}"}))
    write_judge(tmp_path)
    sheet, key = (tmp_path / "judge" / "sheet_all.txt").read_text(), json.loads((tmp_path / "key.json").read_text())
    assert "Gold: Lisbon" in sheet
    assert "one" not in sheet
    marks = {"c/q": {"a": [1, 1], "b": [0, 1]}}
    names = {"one": "finds it", "two": "extracts"}
    told = marked(results(), marks, {question: [names[n] for n in order] for question, order in key.items()})
    first = names[key["c/q"][0]]
    assert {row.system: row.marks.strict for row in told.rows if row.marks} == {
        name: int(name == first) for name in names.values()
    }


def test_marks_of_another_run_are_refused():
    with pytest.raises(ValueError, match="judge the sheets of this run"):
        marked(results(), {"c/q": {"a": [1, 1]}}, {"c/q": ["stranger"]})


def test_endpoint_embeds_a_text_once_and_answers_as_numbers_or_base64():
    kept = KeptVectors(lambda texts: [[float(len(text)), 0.5] for text in texts])
    assert [d["embedding"] for d in embeddings({"input": ["ab", "abc"]}, kept)["data"]] == [[2.0, 0.5], [3.0, 0.5]]
    assert embeddings({"input": "ab", "encoding_format": "base64"}, kept)["data"][0]["embedding"] == "AAAAQAAAAD8="
    assert kept.made == 2
