"""Runs other memories and reme on the same conversations, one after the other, and keeps what came of it.

    python -m peers.run --set locomo FILE --conversations conv-49  all systems: peers/results.json, tables and picture
    python -m peers.run --join FILE FILE ...                       the systems of several runs in one file
    python -m peers.run --join peers/results.json                  sums, tables and picture anew, of the rows kept

Each other system gets a virtual environment of its own (peers/.venvs), made of the versions in peers/NAME.txt. With
--model each makes memories by a chat model of the endpoint that the environment names; with --answers and --judge one
answers from the notes of each system, and one marks the answers, as in `reme bench`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from reme_bench.answers import AnswerBook, answer_questions, endpoint_model
from reme_bench.conversations import Conversation
from reme_bench.datasets import SOURCES, WrongFileError, load
from reme_bench.minilm import DIMENSION, MiniLM, NoVectorError
from reme_bench.results import Dataset, Results, Row, System
from reme_bench.runner import dataset_of, results_of

from peers.endpoint import NO_COUNTS, Endpoint, serving
from peers.environments import HERE, Candidate, call, candidates, environment_of, public, surroundings, upstream
from peers.join import Output, failed, joined, rows_of, system_of, without_texts
from peers.picture import picture
from peers.protocol import Job
from peers.table import ANSWERS, TABLE, answers_line, between, table

RESULTS, ANSWERED = HERE / "results.json", HERE / "answered.json"
README, PAGE = HERE.parent / "README.md", HERE.parent / "docs" / "peers.md"
PICTURE = HERE.parent / "docs" / "images" / "peers.svg"
TOKEN_BUDGET, EMBEDDING = 1024, "all-MiniLM-L6-v2"


def ran(candidate: Candidate, python: Path, job: Job, served: Endpoint, work: Path) -> tuple[Output, dict[str, int]]:
    """Run a system; where vectors had to be made that no other system needed, once more, so that it waits for none."""
    output, counts = _ran_once(candidate, python, job, served, work)
    if counts["new_texts"] and not job.chat_url:
        output, counts = _ran_once(candidate, python, job, served, work)
    return output, counts


def _ran_once(
    candidate: Candidate, python: Path, job: Job, served: Endpoint, work: Path
) -> tuple[Output, dict[str, int]]:
    shutil.rmtree(job.folder, ignore_errors=True)
    Path(job.folder).mkdir(parents=True)
    given, out = work / "job.json", work / "out.json"
    given.write_text(json.dumps(asdict(job), ensure_ascii=False), encoding="utf-8")
    served.counts = dict(NO_COUNTS)
    command = [str(python), str(HERE / candidate.script), str(given), str(out)]
    call(command, surroundings(candidate, work), work / "log.txt")
    output: Output = json.loads(out.read_text(encoding="utf-8"))
    return output, dict(served.counts)


def job_of(conversations: Sequence[Conversation], url: str, chat_model: str | None) -> Job:
    """Make what the scripts are given: conversations and questions, no answers."""
    talks = []
    for talk in conversations:
        sessions = [
            {"session_id": session_id, "messages": [{"created_at": ""} | turn.as_message() for turn in turns]}
            for session_id, turns in talk.sessions().items()
        ]
        questions = [{"question_id": q.question_id, "question": q.text} for q in talk.questions]
        talks.append({"conversation": talk.name, "sessions": sessions, "questions": questions})
    return Job(
        folder="",
        token_budget=TOKEN_BUDGET,
        embedding_url=url,
        embedding_model=EMBEDDING,
        dimension=DIMENSION,
        chat_url=url if chat_model else None,
        chat_model=chat_model or "none",
        conversations=talks,
    )


def measured(
    given: argparse.Namespace, conversations: Sequence[Conversation], served: Endpoint
) -> tuple[dict[System, list[Row]], dict[str, str]]:
    """Run each system in turn; one that fails is in the results with what it said."""
    whole = job_of(conversations, served.url, given.model)
    # Nobody is to be the one who waits for the model.
    served.vectors([turn.embedded for talk in conversations for turn in talk.turns])
    served.vectors([question.text for talk in conversations for question in talk.questions])
    rows: dict[System, list[Row]] = {}
    versions: dict[str, str] = {}
    for name, candidate in candidates(given.only, given.model):
        work = given.work.absolute() / re.sub(r"\W+", "_", name).strip("_")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        chat_url = whole.chat_url if candidate.with_model else None
        job = replace(whole, folder=str(work / "data"), chat_url=chat_url, words_alone=candidate.words_alone)
        try:
            output, counts = ran(candidate, environment_of(candidate, given.environments), job, served, work)
        except (RuntimeError, OSError, ValueError, KeyError) as exc:
            rows[failed(name, public(str(exc)))] = []
            print(f"{name}: {exc}", flush=True)
            continue
        system = system_of(name, output, counts)
        rows[system] = rows_of(name, output, conversations)
        versions |= output["versions"]
        print(f"{name}: {system.append_ms} a session, {system.search_ms} a question", flush=True)
    return rows, versions


def chosen(given: argparse.Namespace) -> tuple[list[Conversation], Dataset]:
    """Read the conversations asked for, with the questions that have evidence among the sessions taken."""
    loaded = load(SOURCES[given.set], given.data, names=given.conversations.split(",") if given.conversations else ())
    try:
        talks = [_cut(talk, given.sessions) for talk in loaded]
    except WrongFileError as exc:
        raise SystemExit(str(exc)) from exc
    if not any(talk.questions for talk in talks):
        raise SystemExit(f"{given.data} has no question about these sessions")
    counted = {
        "name": given.title or loaded.source.title,
        "licence": given.licence or loaded.source.licence,
        "conversations": len(talks),
        "questions": sum(len(talk.questions) for talk in talks),
        "messages": sum(len(talk.turns) for talk in talks),
    }
    return talks, dataset_of(loaded).model_copy(update=counted)


def _cut(talk: Conversation, sessions: int | None) -> Conversation:
    taken = list(talk.sessions())[:sessions]
    turns = tuple(turn for turn in talk.turns if turn.session_id in taken)
    ids = {turn.message_id for turn in turns}
    asked = tuple(q for q in talk.questions if q.answerable and q.evidence and q.evidence.keys() <= ids)
    return replace(talk, turns=turns, questions=asked)


def run(given: argparse.Namespace) -> Results:
    """Run all systems, and have their notes answered from where a model is named for it."""
    conversations, dataset = chosen(given)
    candidates(given.only, given.model)
    models = [endpoint_model(name) for name in (given.answers, given.judge) if name]
    try:
        with MiniLM([], given.minilm) as minilm, serving(minilm.vectors, upstream()) as served:
            rows, versions = measured(given, conversations, served)
    except NoVectorError as exc:
        raise SystemExit(str(exc)) from exc
    if not any(rows.values()):
        raise SystemExit(f"nothing could be measured, and {given.out} stays as it is")
    results = results_of(dataset, rows, versions)
    if models:
        book = AnswerBook(given.work / "answers.jsonl")
        reader, judge = (*models, None)[:2]
        results = asyncio.run(answer_questions(results, reader, judge, book, budget=TOKEN_BUDGET))
    return results


def write_pages() -> None:
    """Write tables and picture of the results kept into README and manual."""
    results, answered = Results.read(RESULTS), Results.read(ANSWERED)
    told = f"{table(results)}\n\n{answers_line(answered)}"
    README.write_text(between(README.read_text(encoding="utf-8"), TABLE, told), encoding="utf-8")
    PAGE.write_text(between(PAGE.read_text(encoding="utf-8"), ANSWERS, table(answered)), encoding="utf-8")
    PICTURE.write_text(picture(results), encoding="utf-8")


def main() -> None:
    """Do what the command line asks for."""
    given = _parser().parse_args()
    if given.judge and not given.answers:
        raise SystemExit("--judge goes with --answers")
    given.work.mkdir(parents=True, exist_ok=True)
    if given.data is None and not given.join:
        given.out = given.out or given.work / "demo.json"
        given.data = HERE.parent / "examples" / "demo_conversation.json"
    part = given.only or given.sessions or given.model or given.answers
    given.out = given.out or (given.work / "part.json" if part else RESULTS)
    made = joined([Results.read(path) for path in given.join]) if given.join else run(given)
    results = without_texts(made)
    results.write(given.out)
    print(f"{table(results)}\n\n{given.out}")
    if given.out.resolve() in {RESULTS, ANSWERED}:
        write_pages()
    if results.answering and (failures := results.answering.failures):
        first = failures[0]
        raise SystemExit(f"{len(failures)} answers or marks are missing, first {first.error}: {first.message}")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("wanted 1 or more")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="conversations; none: the demo's")
    parser.add_argument("--set", choices=sorted(SOURCES), default="own", help="the form of the file")
    parser.add_argument("--title", help="the name of the data set in the table, where the form doesn't tell it")
    parser.add_argument("--licence", help="that of the data set, the same")
    parser.add_argument("--conversations", help="names, with commas between them; all of the file otherwise")
    parser.add_argument("--sessions", type=_count, help="of each conversation only the first so many")
    parser.add_argument("--only", help="systems whose name holds one of these words, with commas between them")
    parser.add_argument("--model", help="the chat model that makes memories")
    parser.add_argument("--answers", help="the chat model that answers from each system's notes")
    parser.add_argument("--judge", help="the chat model that marks the answers")
    parser.add_argument("--minilm", type=Path, default=HERE.parent / ".venv-minilm" / "bin" / "python")
    parser.add_argument("--environments", type=Path, default=HERE / ".venvs")
    parser.add_argument("--work", type=Path, default=HERE / ".venvs" / "work", help="what the systems keep and write")
    parser.add_argument(
        "--out",
        type=Path,
        help="peers/results.json; of the demo, a part, or with a model one in the folder of the work",
    )
    parser.add_argument("--join", type=Path, nargs="+", help="only put the systems of these files of results into one")
    return parser


if __name__ == "__main__":
    main()
