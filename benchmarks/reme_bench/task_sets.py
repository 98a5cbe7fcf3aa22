"""Tasks that an agent does with tools, and recorded attempts at them: BFCL's multi-turn categories and AppWorld.

Read from the files that their own runners write. No environment is run here: whether a recorded attempt succeeded is
what the set's own evaluation says.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel, ValidationError

from reme_bench.datasets.source import WrongFileError, json_items
from reme_core.errors import InvalidInputError
from reme_core.schema import Message, TextBlock, ToolCallBlock, ToolResultBlock, Trajectory

M = TypeVar("M", bound=BaseModel)
# Files of function documents, by the class that a task involves. Source: MULTI_TURN_FUNC_DOC_FILE_MAPPING of
# bfcl_eval/constants/executable_backend_config.py.
_DOCUMENTS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
_INTERACTION = re.compile(r"^### Environment Interaction \d+\n-+\n", re.MULTILINE)
_STEP = re.compile(r"\A\s*```python\n(.*)\n```\s*\n```\n(.*?)\n?```\s*\Z", re.DOTALL)


class FunctionDoc(BaseModel):
    """A function that a task offers, as its set describes it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def properties(self) -> Mapping[str, JsonValue]:
        """Return the parameters by name, in order."""
        found = self.parameters.get("properties")
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task.

    Attributes:
        family: What its variants share; those of one family never stand on both sides of a split.
        turns: What the user asks, in order.
        tools: Names of the functions that a right solution calls, where the set tells them.
        calls: The right calls of each turn; None: the set has none.
        functions: The functions that may be called, where they are described.
        attempt: A recorded attempt with its score, if there is one.
    """

    task_id: str
    family: str
    category: str
    turns: tuple[str, ...]
    tools: tuple[str, ...] = ()
    calls: tuple[tuple[str, ...], ...] | None = None
    functions: tuple[FunctionDoc, ...] = field(default=(), repr=False)
    attempt: Trajectory | None = field(default=None, repr=False)

    @property
    def instruction(self) -> str:
        """Return all that the user asks."""
        return "\n".join(self.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSet:
    """A set of tasks, the name of its file or folder, and the SHA-256 of what says which tasks they are."""

    name: str
    licence: str
    file: str
    sha256: str
    tasks: tuple[Task, ...]

    def halves(self) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
        """Return the tasks of the first half of the families, and those of the others."""
        families = list(dict.fromkeys(task.family for task in self.tasks))
        first = set(families[: len(families) // 2])
        return (
            tuple(task for task in self.tasks if task.family in first),
            tuple(task for task in self.tasks if task.family not in first),
        )


class _Lax(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _BfclEntry(_Lax):
    id: str
    question: list[list[dict[str, JsonValue]]]
    involved_classes: list[str] = []
    excluded_function: list[str] = []


class _BfclTruth(_Lax):
    id: str
    ground_truth: list[list[str]]


class _BfclResult(_Lax):
    id: str
    inference_log: list[JsonValue] = []


class _BfclScore(_Lax):
    id: str | None = None  # the first line has none: it sums up the others, which are the failures
    valid: bool = False


class _AppWorldSpecs(_Lax):
    instruction: str


class _AppWorldNames(RootModel[list[str]]):
    pass


class _AppWorldVerdict(_Lax):
    success: bool


class _AppWorldEvaluation(_Lax):
    individual: dict[str, _AppWorldVerdict]


def read_bfcl(questions: Path, results: Path | None = None, scores: Path | None = None) -> TaskSet:
    """Read a file of BFCL's multi-turn tasks (`BFCL_v4_multi_turn_base.json`), and a model's attempts at them.

    Right calls are looked for in `possible_answer/` beside it, descriptions of functions in `multi_turn_func_doc/`.

    Args:
        questions: The tasks.
        results: What `bfcl generate` wrote: `BFCL_v4_multi_turn_base_result.json`.
        scores: What `bfcl evaluate` wrote of it: `BFCL_v4_multi_turn_base_score.json`.

    Raises:
        InvalidInputError: A file is not of this form, or results come without their scores.
    """
    if (results is None) != (scores is None):
        msg = "results and scores of BFCL go together: `bfcl generate` writes the ones, `bfcl evaluate` the others"
        raise InvalidInputError(msg)
    entries = list(_lines(questions, _BfclEntry))
    truths = _beside(questions.parent / "possible_answer" / questions.name)
    documents = _documents(questions.parent / "multi_turn_func_doc")
    failed = {score.id for score in _lines(scores, _BfclScore) if not score.valid} if scores else set()
    attempts: dict[str, Trajectory | None] = {}
    for result in _lines(results, _BfclResult) if results else ():
        with _reading(results or questions, _BfclResult):
            attempts[result.id] = _bfcl_attempt(result, solved=result.id not in failed)
    tasks = [_bfcl_task(entry, truths.get(entry.id), documents, attempts.get(entry.id)) for entry in entries]
    return TaskSet(
        name=f"BFCL {tasks[0].category if tasks else ''}".strip(),
        licence="Apache-2.0",
        file=questions.name,
        sha256=hashlib.sha256(questions.read_bytes()).hexdigest(),
        tasks=tuple(tasks),
    )


def _bfcl_task(
    entry: _BfclEntry,
    calls: tuple[tuple[str, ...], ...] | None,
    documents: Mapping[str, Sequence[FunctionDoc]],
    attempt: Trajectory | None,
) -> Task:
    return Task(
        task_id=entry.id,
        family=entry.id,
        category=entry.id.rsplit("_", 1)[0],
        turns=tuple("\n".join(str(said.get("content", "")) for said in turn) for turn in entry.question),
        tools=tuple(dict.fromkeys(parse_call(call)[0] for turn in calls or () for call in turn)),
        calls=calls,
        functions=tuple(
            document
            for name in entry.involved_classes
            for document in documents.get(_DOCUMENTS.get(name, ""), ())
            if document.name not in entry.excluded_function
        ),
        attempt=attempt,
    )


def read_appworld(outputs: Path, data: Path) -> TaskSet:
    """Read an AppWorld experiment (`experiments/outputs/NAME`, evaluated) with its tasks (`data/tasks/ID/specs.json`).

    Raises:
        InvalidInputError: A file is missing, or not of its form.
    """
    verdicts: dict[str, _AppWorldVerdict] = {}
    for file in sorted((outputs / "evaluations").glob("*.json")):
        verdicts |= _whole(file, _AppWorldEvaluation).individual
    if not verdicts:
        msg = f"{str(outputs)!r} has no evaluations/*.json: run `appworld evaluate` on the experiment first"
        raise InvalidInputError(msg)
    tasks = [_appworld_task(task_id, outputs, data, verdict) for task_id, verdict in sorted(verdicts.items())]
    return TaskSet(
        name="AppWorld",
        licence="Apache-2.0; its authors ask that tasks and solutions are not published as plain text",
        file=outputs.name,
        sha256=hashlib.sha256("\n".join(task.task_id + task.instruction for task in tasks).encode()).hexdigest(),
        tasks=tuple(tasks),
    )


def parse_call(call: str, documents: Mapping[str, FunctionDoc] | None = None) -> tuple[str, dict[str, JsonValue]]:
    """Read a Python call: its name, and its arguments by name, with the defaults that its document tells.

    An argument without a name gets that of its place in the document, or its number. A text that is no call of
    literal values is returned as a name without arguments.
    """
    try:
        node = ast.parse(call.strip(), mode="eval").body
        if not isinstance(node, ast.Call):
            return call.strip(), {}
        name = ast.unparse(node.func).rsplit(".", 1)[-1]
        placed = [ast.literal_eval(argument) for argument in node.args]
        given = {keyword.arg or "**": ast.literal_eval(keyword.value) for keyword in node.keywords}
        placed, named = json.loads(json.dumps([placed, given], allow_nan=False))
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError):
        return call.strip(), {}
    document = (documents or {}).get(name)
    order = [*document.properties] if document else []
    arguments = {order[place] if place < len(order) else str(place): value for place, value in enumerate(placed)}
    defaults = {
        name: told["default"]
        for name, told in (document.properties.items() if document else ())
        if isinstance(told, dict) and "default" in told
    }
    return name, {**defaults, **arguments, **named}


def _bfcl_attempt(attempt: _BfclResult, *, solved: bool) -> Trajectory | None:
    messages: list[Message] = []
    turns = [turn for turn in attempt.inference_log if isinstance(turn, dict)]
    for number, turn in enumerate(turns):
        messages += [_said("user", said) for said in _texts(turn.get("begin_of_turn_query"))]
        steps = [step for name, step in turn.items() if name.startswith("step_") and isinstance(step, list)]
        for place, step in enumerate(steps):
            messages += _bfcl_step([part for part in step if isinstance(part, dict)], f"{attempt.id}-{number}-{place}")
    return _trajectory(attempt.id, messages, solved=solved) if messages else None


def _bfcl_step(parts: Sequence[Mapping[str, JsonValue]], call_id: str) -> Iterator[Message]:
    """Read one answer of the model: its calls with their results, or what it said."""
    decoded = next((part["model_response_decoded"] for part in parts if part.get("model_response_decoded")), None)
    outputs = [str(part.get("content", "")) for part in parts if part.get("role") == "tool"]
    if isinstance(decoded, list) and outputs:
        calls = [parse_call(str(call)) for call in decoded]
        ids = [f"{call_id}-{number}" for number in range(len(calls))]
        pairs = zip(ids, calls, strict=True)
        made = tuple(ToolCallBlock(call_id=key, name=name[:200], arguments=told) for key, (name, told) in pairs)
        yield Message(role="assistant", content=made)
        for key, output in zip(ids, outputs, strict=False):
            yield Message(role="tool", content=(ToolResultBlock(call_id=key, output=output),))
    else:
        for part in parts:
            if part.get("role") == "assistant" and part.get("content"):
                content = part["content"]
                yield _said("assistant", content if isinstance(content, str) else json.dumps(content))


def _appworld_task(task_id: str, outputs: Path, data: Path, verdict: _AppWorldVerdict) -> Task:
    folder = data / "tasks" / task_id
    instruction = _whole(folder / "specs.json", _AppWorldSpecs).instruction
    needed = folder / "ground_truth" / "required_apis.json"
    log = outputs / "tasks" / task_id / "logs" / "environment_io.md"
    with _reading(log, _AppWorldSpecs):
        attempt = _appworld_attempt(task_id, instruction, log, solved=verdict.success) if log.exists() else None
    return Task(
        task_id=task_id,
        family=task_id.rsplit("_", 1)[0],
        category="AppWorld",
        turns=(instruction,),
        tools=tuple(_whole(needed, _AppWorldNames).root) if needed.exists() else (),
        attempt=attempt,
    )


def _appworld_attempt(task_id: str, instruction: str, log: Path, *, solved: bool) -> Trajectory:
    messages = [_said("user", instruction)]
    for number, step in enumerate(_INTERACTION.split(log.read_text(encoding="utf-8"))[1:]):
        found = _STEP.match(step)
        code, output = (found[1], found[2]) if found else (step.strip(), "")
        call = ToolCallBlock(call_id=f"{task_id}-{number}", name="execute", arguments={"code": code})
        result = ToolResultBlock(call_id=call.call_id, output=output)
        messages += [Message(role="assistant", content=(call,)), Message(role="tool", content=(result,))]
    return _trajectory(task_id, messages, solved=solved)


def _trajectory(task_id: str, messages: Sequence[Message], *, solved: bool) -> Trajectory:
    said = "\n".join(message.full_text for message in messages)
    trajectory_id = f"{task_id}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"  # another run's is another attempt
    return Trajectory(trajectory_id=trajectory_id, task_id=task_id, messages=tuple(messages), score=float(solved))


def _said(role: str, text: str) -> Message:
    return Message.model_validate({"role": role, "content": (TextBlock(text=text or "(nothing)"),)})


def _texts(said: object) -> list[str]:
    return [str(part.get("content", "")) for part in said if isinstance(part, dict)] if isinstance(said, list) else []


def _beside(path: Path) -> dict[str, tuple[tuple[str, ...], ...]]:
    found = _lines(path, _BfclTruth) if path.exists() else ()
    return {truth.id: tuple(map(tuple, truth.ground_truth)) for truth in found}


def _documents(folder: Path) -> dict[str, tuple[FunctionDoc, ...]]:
    return {path.stem: tuple(_lines(path, FunctionDoc)) for path in sorted(folder.glob("*.json"))}


def _lines(path: Path, form: type[M]) -> list[M]:
    with _reading(path, form):
        return list(json_items(path, form))


def _whole(path: Path, form: type[M]) -> M:
    with _reading(path, form):
        return form.model_validate_json(path.read_bytes())


@contextmanager
def _reading(path: Path, form: type[BaseModel]) -> Iterator[None]:
    """Tell what was wanted of a file that is missing, no JSON, or of another form (WrongFileError)."""
    try:
        yield
    except (OSError, ValueError) as exc:
        wanted = ", ".join(name for name, known in form.model_fields.items() if known.is_required())
        reason = exc.errors()[0]["msg"] if isinstance(exc, ValidationError) else str(exc)
        message = f"{str(path)!r} can't be read as JSON that has {wanted or 'text'}: {reason}"
        raise WrongFileError(message) from exc
