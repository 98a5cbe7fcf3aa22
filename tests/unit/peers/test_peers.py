"""The comparison with other memories: its protocol, the join of what systems wrote, and the README's table."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from reme_bench.answers import reader_stage
from reme_bench.conversations import Conversation, LabelledQuestion, Turn, conversation
from reme_bench.minilm import NoVectorError
from reme_bench.results import Dataset, Marks, Results, ResultsFileError
from reme_bench.runner import results_of

from peers import environments, run
from peers.endpoint import Upstream, serving
from peers.join import Output, failed, joined, rows_of, system_of, without_texts
from peers.picture import picture
from peers.protocol import Note, within
from peers.table import ANSWERS, END, TABLE, answers_line, between, table

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
    rows = {system_of(name, out, counts): rows_of(name, out, [talk()]) for name, out in given.items()}
    return results_of(DATA, {**rows, failed("broken", "no such package"): []}, {"other": "1.0"})


def test_readme_and_manual_have_the_tables_of_the_results_in_the_tree():
    readme, page = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/peers.md"))
    kept, answered = Results.read(run.RESULTS), Results.read(run.ANSWERED)
    assert between(readme, TABLE, f"{table(kept)}\n\n{answers_line(answered)}") == readme
    assert between(page, ANSWERS, table(answered)) == page
    assert (ROOT / "docs" / "images" / "peers.svg").read_text(encoding="utf-8") == picture(kept)


@pytest.mark.parametrize("path", [run.RESULTS, run.ANSWERED], ids=lambda path: path.stem)
def test_results_in_the_tree_are_the_sums_of_their_rows_and_hold_no_text_of_the_data_set(path):
    kept = Results.read(path)
    assert joined([kept]) == kept
    assert without_texts(kept) == kept


def test_a_picture_has_every_system_that_has_the_figure_and_names_as_text():
    made = results()
    renamed = [entry.model_copy(update={"system": entry.system.replace("finds", "<b>")}) for entry in made.summary]
    drawn = picture(made.model_copy(update={"summary": renamed}))
    [first, second] = drawn.split("words in 1,024 tokens, percent")
    assert (first.count("<circle"), second.count("<circle")) == (1, 2)
    assert "&lt;b&gt; it" in first


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


def test_a_page_without_its_marks_is_refused():
    assert between(f"a\n{TABLE}\nold\n{END}\nb", TABLE, "new") == f"a\n{TABLE}\nnew\n{END}\nb"
    for page in (f"{TABLE}\nold", f"{TABLE}\n{TABLE}\n\n{END}", END):
        with pytest.raises(ValueError, match="the table stands between them"):
            between(page, TABLE, "new")


def test_budget_passes_over_what_is_too_long_and_keeps_a_line_once():
    kept = within([Note("a" * 10), Note("b" * 400), Note("a" * 10), Note("c" * 10)], 6)
    assert [note.text[0] for note in kept] == ["a", "c"]


def test_a_reader_is_shown_the_lines_of_each_system_and_what_is_kept_has_no_text():
    made = results()
    asked = [reader_stage(None).question(row) for row in made.rows]
    assert "- (2025-06-02) Ann: I moved to Lisbon in May." in asked[0]
    assert "Where to?" in asked[0]
    answered = made.rows[0].model_copy(update={"answer": "Lisbon", "marks": Marks(strict=1, lenient=1)})
    kept = without_texts(made.model_copy(update={"rows": (answered, *made.rows[1:])}))
    assert "Lisbon" not in kept.model_dump_json()
    told = joined([kept])
    assert "| strict |" in table(told).replace("| lenient ", "")
    assert answers_line(told).endswith(": finds it 100.0 ±0.0.")


def test_runs_on_the_same_questions_are_joined_and_others_refused():
    made = results()
    first, second = (made.model_copy(update={"systems": made.systems[at : at + 1]}) for at in (0, 1))
    parts = [
        part.model_copy(update={"rows": [row for row in made.rows if row.system == part.systems[0].name]})
        for part in (first, second)
    ]
    whole = joined(parts)
    assert [system.name for system in whole.systems] == ["finds it", "extracts"]
    assert whole.summary == made.summary
    with pytest.raises(ResultsFileError, match="other questions"):
        joined([made, made.model_copy(update={"dataset": DATA.model_copy(update={"sha256": "1"})})])


def asked_of(url: str, path: str, body: bytes) -> bytes:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{url}/{path}", body, timeout=30) as told:
        return bytes(told.read())


def embed(texts: Sequence[str]) -> np.ndarray:
    return np.array([[float(len(text)), 0.5] for text in texts], np.float32)


def test_endpoint_counts_a_text_once_and_answers_as_numbers_or_base64():
    with serving(embed) as served:
        told = [asked_of(served.url, "embeddings", body) for body in (b'{"input": ["ab", "abc"]}', b'{"input": "ab"}')]
        packed = asked_of(served.url, "embeddings", b'{"input": "ab", "encoding_format": "base64"}')
        assert served.server_address[0] == "127.0.0.1"
    assert [d["embedding"] for d in json.loads(told[0])["data"]] == [[2.0, 0.5], [3.0, 0.5]]
    assert json.loads(packed)["data"][0]["embedding"] == "AAAAQAAAAD8="
    assert served.counts["new_texts"] == 2


def test_scripts_get_no_settings_and_send_no_reports(tmp_path, monkeypatch):
    for name in ("REME_DATABASE_URL", "BASIC_MEMORY_CLOUD_MODE", "LANGSMITH_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "theirs")
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    for candidate in environments.CANDIDATES:
        given = environments.surroundings(candidate, tmp_path)
        assert "theirs" not in given.values()
        assert (given["LANGSMITH_TRACING"], given["BASIC_MEMORY_NO_PROMOS"], given["MEM0_TELEMETRY"]) == (
            "false",
            "1",
            "False",
        )
        assert "127.0.0.1" in given["no_proxy"]
        assert candidate.requirements is None or given["HOME"] == str(tmp_path / "home")


def test_the_chat_model_is_the_one_that_the_environment_names_for_reme(monkeypatch):
    for name in ("BASE_URL", "API_KEY"):
        monkeypatch.delenv(f"REME_LLM_{name}", raising=False)
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
    assert environments.upstream() == Upstream("https://api.openai.com/v1", "")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("REME_LLM_BASE_URL", "http://models.test/v1/")
    assert environments.upstream() == Upstream("http://models.test/v1", "sk-1")


def test_what_a_script_failed_with_holds_no_key(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    code = "import sys; sys.exit('refused: sk-secret')"
    with pytest.raises(RuntimeError, match=r"refused: \(the key\)"):
        environments.call([sys.executable, "-c", code], dict(os.environ), tmp_path / "log.txt")
    assert "sk-secret" not in (tmp_path / "log.txt").read_text()


def test_unknown_systems_and_conversations_and_a_missing_model_are_told(tmp_path):
    with pytest.raises(SystemExit, match="there are reme, words alone; "):
        environments.candidates("nobody", None)
    assert [name for name, _ in environments.candidates(" mem0 ,basic", None)] == ["mem0, infer=False", "basic-memory"]
    demo = ROOT / "examples" / "demo_conversation.json"
    given = argparse.Namespace(set="own", data=demo, conversations="nobody", sessions=None, title=None, licence=None)
    with pytest.raises(SystemExit, match="no conversation nobody"):
        run.chosen(given)


def test_endpoint_hands_on_with_the_key_counts_tokens_and_says_what_it_cannot_do():
    def broken(texts: Sequence[str]) -> np.ndarray:
        raise NoVectorError("make .venv-minilm/done makes it")

    told = []
    with serving(broken, Upstream("http://127.0.0.1:9/v1", "sk-secret")) as served:
        for path, body in (
            ("embeddings", b"{"),
            ("embeddings", b"[]"),
            ("embeddings", b'{"input": "ab"}'),
            ("chat/completions", b"{}"),
        ):
            with pytest.raises(urllib.error.HTTPError) as refused:
                asked_of(served.url, path, body)
            told.append(refused.value.code)
            refused.value.close()
        assert (told, served.counts["model_calls"]) == ([400, 400, 500, 502], 0)
        with serving_chat() as (upstream, keys):
            served.upstream = Upstream(upstream, "sk-secret")
            asked_of(served.url, "chat/completions", b"{}")
    assert keys == ["Bearer sk-secret"]
    assert (served.counts["model_calls"], served.counts["prompt_tokens"]) == (1, 7)


@contextmanager
def serving_chat() -> Iterator[tuple[str, list[str]]]:
    """Serve a chat model that says nothing; the list has the keys that it was asked with."""
    keys = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            keys.append(self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": null}}')

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", keys
        server.shutdown()
