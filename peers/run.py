"""Runs other memories and reme on the same conversations, one after the other, and keeps what came of it.

    python -m peers.run --set locomo FILE --conversations conv-49  all systems: peers/results.json, table and picture
    python -m peers.run --sheets FOLDER FILE                       notes and questions of the last run, for readers
    python -m peers.run --judge FOLDER                             a blind sheet of the answers that lie in FOLDER
    python -m peers.run --marks MARKS.json --key KEY.json          a judge's marks into peers/results.json
    python -m peers.run --readme                                   table and picture of peers/results.json

Each other system gets a virtual environment of its own (peers/.venvs), made of the versions in peers/NAME.txt. With
OPENAI_BASE_URL and --model each makes memories by that model; without, only what needs none is measured.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from reme_bench.conversations import Conversation
from reme_bench.datasets import SOURCES, load
from reme_bench.results import Dataset, Results, Row, System
from reme_bench.runner import dataset_of

from peers.join import Output, failed, in_readme, marked, results_of, rows_of, system_of, table
from peers.picture import picture
from peers.protocol import Job
from peers.sheets import write_judge, write_sheets

HERE = Path(__file__).resolve().parent
RESULTS, README = HERE / "results.json", HERE.parent / "README.md"
PICTURE = HERE.parent / "docs" / "images" / "peers.svg"
TOKEN_BUDGET, DIMENSION, EMBEDDING = 1024, 384, "all-MiniLM-L6-v2"
# The model's load is waited for so long; each system's whole run, with a person as the chat model, so long.
_START_S, _RUN_S = 180, 24 * 3600


@dataclass(frozen=True)
class Candidate:
    """One system: its script, its requirements (none: reme's own environment), and the oldest Python it takes."""

    name: str
    script: str
    requirements: str | None = None
    with_model: str | None = None
    words_alone: bool = False
    python: tuple[int, int] = (3, 11)


CANDIDATES = (
    Candidate("reme, words alone", "reme_messages.py", words_alone=True),
    Candidate("reme, with vectors", "reme_messages.py", with_model="reme, memories and messages"),
    Candidate("mem0, infer=False", "mem0_memory.py", "mem0.txt", "mem0"),
    Candidate("LangMem's store", "langmem_store.py", "langmem.txt", "LangMem's manager"),
    Candidate("ReMe 0.3, add_memory", "reme_0_3.py", "reme_0_3.txt", "ReMe 0.3"),
    Candidate("basic-memory", "basic_memory_notes.py", "basic_memory.txt", python=(3, 12)),
)


class Endpoint:
    """The endpoint that all systems ask, and its counts."""

    def __init__(self, url: str) -> None:
        self.url = url

    def reset(self) -> None:
        """Set the counts to zero."""
        self._post("usage", {})

    def counts(self) -> dict[str, int]:
        """Return what was asked since."""
        with urllib.request.urlopen(f"{self.url}/usage", timeout=60) as answer:
            told: dict[str, int] = json.load(answer)
        return told

    def embed(self, texts: Sequence[str]) -> None:
        """Make the vectors of texts, which are kept: nobody is the one who waits for the model."""
        for at in range(0, len(texts), 64):
            self._post("v1/embeddings", {"model": EMBEDDING, "input": texts[at : at + 64]})

    def _post(self, path: str, body: dict[str, object]) -> None:
        request = urllib.request.Request(f"{self.url}/{path}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=600) as answer:
            answer.read()


@contextlib.contextmanager
def endpoint(python: Path, work: Path, vectors: Path | None, upstream: str | None) -> Iterator[Endpoint]:
    """Serve MiniLM, and the chat model if there is one, until the run ends."""
    port_file = work / "endpoint.port"
    port_file.unlink(missing_ok=True)
    command = [str(python), str(HERE / "endpoint.py"), "--port-file", str(port_file)]
    command += ["--vectors", str(vectors)] if vectors else []
    command += ["--upstream", upstream] if upstream else []
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with subprocess.Popen(command, env=environment) as process:
        try:
            yield Endpoint(f"http://127.0.0.1:{_port(port_file, process)}")
        finally:
            process.terminate()


def _port(port_file: Path, process: subprocess.Popen[bytes]) -> str:
    until = time.monotonic() + _START_S
    while not (port_file.exists() and port_file.read_text()):
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit("the embedding model isn't served: `make .venv-minilm/done` makes its environment")
        time.sleep(0.2)
    return port_file.read_text()


def environment_of(candidate: Candidate, folder: Path) -> Path:
    """Return the Python of a system's environment, made if there is none.

    Raises:
        RuntimeError: There is no such Python, or pip can't install the system; it says why.
    """
    if candidate.requirements is None:
        return Path(sys.executable)
    home = folder / Path(candidate.requirements).stem
    python = home / "bin" / "python"
    if not (home / "done").exists():
        _call([_python(candidate.python), "-m", "venv", "--clear", str(home)])
        requirements = str(HERE / candidate.requirements)
        _call([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements])
        (home / "done").touch()
    return python


def _python(oldest: tuple[int, int]) -> str:
    if sys.version_info[:2] >= oldest:
        return sys.executable
    for minor in range(oldest[1], oldest[1] + 3):
        found = shutil.which(f"python3.{minor}")
        if found and subprocess.run([found, "-V"], capture_output=True, check=False).returncode == 0:
            return found
    raise RuntimeError(f"it needs Python {oldest[0]}.{oldest[1]}, which isn't on the path")


def _call(command: Sequence[str], log: Path | None = None) -> None:
    """Run a command (RuntimeError: it failed; with the last line that it wrote)."""
    environment = dict(os.environ)
    if log is None or command[0] != sys.executable:
        environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_RUN_S, check=False)
    if log is not None:
        log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode:
        told = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise RuntimeError(told[-1].strip() if told else f"exit code {done.returncode}")


def ran(candidate: Candidate, python: Path, job: Job, served: Endpoint, work: Path) -> tuple[Output, dict[str, int]]:
    """Run a system; where vectors had to be made that no other system needed, once more, so that it waits for none."""
    output, counts = _ran_once(candidate, python, job, served, work)
    if counts["made"] and not job.chat_url:
        output, counts = _ran_once(candidate, python, job, served, work)
    return output, counts


def _ran_once(
    candidate: Candidate, python: Path, job: Job, served: Endpoint, work: Path
) -> tuple[Output, dict[str, int]]:
    shutil.rmtree(job.folder, ignore_errors=True)
    Path(job.folder).mkdir(parents=True)
    given, out = work / "job.json", work / "out.json"
    given.write_text(json.dumps(asdict(job), ensure_ascii=False), encoding="utf-8")
    served.reset()
    _call([str(python), str(HERE / candidate.script), str(given), str(out)], work / "log.txt")
    output: Output = json.loads(out.read_text(encoding="utf-8"))
    return output, served.counts()


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
        embedding_url=f"{url}/v1",
        embedding_model=EMBEDDING,
        dimension=DIMENSION,
        chat_url=f"{url}/v1" if chat_model else None,
        chat_model=chat_model or "none",
        conversations=talks,
    )


def measured(
    given: argparse.Namespace, conversations: Sequence[Conversation], served: Endpoint
) -> tuple[list[System], list[Row], dict[str, str]]:
    """Run each system in turn; one that fails is in the results with what it said."""
    whole = job_of(conversations, served.url, given.model)
    served.embed([t.embedded for talk in conversations for t in talk.turns])
    served.embed([q.text for talk in conversations for q in talk.questions])
    systems: list[System] = []
    rows: list[Row] = []
    versions: dict[str, str] = {}
    for candidate in CANDIDATES:
        name = candidate.name
        if given.model and candidate.with_model:
            name = f"{candidate.with_model} ({given.model})"
        if given.only and not any(word in name for word in given.only.split(",")):
            continue
        work = given.work / re.sub(r"\W+", "_", name).strip("_")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        chat_url = whole.chat_url if candidate.with_model else None
        job = replace(whole, folder=str(work / "data"), chat_url=chat_url, words_alone=candidate.words_alone)
        try:
            output, counts = ran(candidate, environment_of(candidate, given.environments), job, served, work)
        except RuntimeError as exc:
            systems.append(failed(name, str(exc)))
            print(f"{name}: {exc}", flush=True)
            continue
        systems.append(system_of(name, output, counts))  # type: ignore[arg-type]  # the endpoint counts more
        rows += rows_of(name, output, conversations)
        versions |= output["versions"]
        (work / "name").write_text(name, encoding="utf-8")
        print(f"{name}: {systems[-1].append_ms} a session, {systems[-1].search_ms} a question", flush=True)
    return systems, rows, versions


def chosen(given: argparse.Namespace) -> tuple[list[Conversation], Dataset]:
    """Read the conversations asked for, with the questions that have evidence among the sessions taken."""
    loaded = load(SOURCES[given.set], given.data)
    names = given.conversations.split(",") if given.conversations else None
    talks = [_cut(talk, given.sessions) for talk in loaded if names is None or talk.name in names]
    if not talks:
        raise SystemExit(f"{given.data} has none of the conversations {given.conversations}")
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
    """Run all systems and keep the results."""
    upstream = os.environ.get("OPENAI_BASE_URL") if given.model else None
    if given.model and not upstream:
        raise SystemExit("--model needs OPENAI_BASE_URL, the address of the model's endpoint")
    conversations, dataset = chosen(given)
    with endpoint(given.minilm, given.work, given.vectors, upstream) as served:
        systems, rows, versions = measured(given, conversations, served)
    results = results_of(systems, rows, versions, dataset, datetime.now(UTC))
    results.write(given.out)
    return results


def outputs(work: Path) -> Iterator[tuple[str, Output]]:
    """Give what each system of the last run wrote."""
    for out in sorted(work.glob("*/out.json")):
        yield out.parent.name, json.loads(out.read_text(encoding="utf-8"))


def main() -> None:
    """Do what the command line asks for."""
    given = _parser().parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    if given.data is None:
        given.out = given.out or (RESULTS if given.readme or given.marks else given.work / "demo.json")
        given.data = HERE.parent / "examples" / "demo_conversation.json"
    given.out = given.out or RESULTS
    if given.sheets:
        conversations, _ = chosen(given)
        print(write_sheets(given.sheets, dict(outputs(given.work)), conversations))
        return
    if given.judge:
        print(write_judge(given.judge))
        return
    if given.marks:
        names = {path.parent.name: path.read_text(encoding="utf-8") for path in given.work.glob("*/name")}
        key = json.loads(given.key.read_text(encoding="utf-8"))
        by_name = {question: [names.get(folder, folder) for folder in order] for question, order in key.items()}
        marked(Results.read(given.out), json.loads(given.marks.read_text(encoding="utf-8")), by_name).write(given.out)
    elif not given.readme:
        run(given)
    results = Results.read(given.out)
    print(table(results))
    if given.out == RESULTS:
        README.write_text(in_readme(README.read_text(encoding="utf-8"), results), encoding="utf-8")
        PICTURE.write_text(picture(results), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="conversations; none: the demo's")
    parser.add_argument("--set", choices=sorted(SOURCES), default="own", help="the form of the file")
    parser.add_argument("--title", help="the name of the data set in the table, where the form doesn't tell it")
    parser.add_argument("--licence", help="that of the data set, the same")
    parser.add_argument("--conversations", help="names, with commas between them; all of the file otherwise")
    parser.add_argument("--sessions", type=int, help="of each conversation only the first so many")
    parser.add_argument("--only", help="systems whose name holds one of these words, with commas between them")
    parser.add_argument("--model", help="the chat model that makes memories, behind OPENAI_BASE_URL")
    parser.add_argument("--minilm", type=Path, default=HERE.parent / ".venv-minilm" / "bin" / "python")
    parser.add_argument("--vectors", type=Path, help="vectors of these texts that were made before (npz)")
    parser.add_argument("--environments", type=Path, default=HERE / ".venvs")
    parser.add_argument("--work", type=Path, default=HERE / ".venvs" / "work", help="what the systems keep and write")
    parser.add_argument("--out", type=Path, help="peers/results.json, of the demo one beside the work")
    parser.add_argument("--sheets", type=Path, help="write what a reader needs into this folder")
    parser.add_argument("--judge", type=Path, help="write what a judge needs into this folder of sheets")
    parser.add_argument("--marks", type=Path)
    parser.add_argument("--key", type=Path)
    parser.add_argument("--readme", action="store_true", help="only write table and picture of the results kept")
    return parser


if __name__ == "__main__":
    main()
