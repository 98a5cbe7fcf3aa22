"""Tasks of BFCL and AppWorld, read from files of their real form (the contents are invented), and first-try success."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from reme_bench import task_runs
from reme_bench.answers import AnswerBook, NamedModel
from reme_bench.task_sets import FunctionDoc, TaskSet, parse_call, read_appworld, read_bfcl

from reme_core import ReMe
from reme_core.errors import InvalidInputError, ModelUnavailableError
from reme_core.ports import ChatRequest
from reme_core.testing import ScriptedChatModel

DOCUMENTS = (
    {
        "name": "open_box",
        "description": "Tool description: Open a box.",
        "parameters": {
            "type": "dict",
            "properties": {
                "box": {"type": "string", "description": "Its name. "},
                "gently": {"type": "boolean", "default": True},
            },
            "required": ["box"],
        },
        "response": {"type": "dict", "properties": {}},
    },
    {
        "name": "put",
        "description": "Tool description: Put something into the open box.",
        "parameters": {"type": "dict", "properties": {"thing": {"type": "string"}}, "required": ["thing"]},
    },
)
QUESTIONS = "BFCL_v4_multi_turn_base.json"
RESULTS = "result/BFCL_v4_multi_turn_base_result.json"
SCORES = "score/BFCL_v4_multi_turn_base_score.json"
BOXES = ("red", "blue", "green", "grey")


def lines(path: Path, entries: Sequence[object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(entry) for entry in entries))
    return path


def step(calls: Sequence[str], outputs: Sequence[str]) -> list[dict[str, object]]:
    return [
        {"role": "assistant", "content": [{"open_box": "{}"}]},
        {"role": "handler_log", "content": "Successfully decoded model response.", "model_response_decoded": calls},
        *({"role": "tool", "content": output} for output in outputs),
    ]


def make_bfcl(folder: Path) -> None:
    """Write four tasks of two turns; a model has done all of them, the second one wrongly."""
    questions = [
        {
            "id": f"multi_turn_base_{number}",
            "question": [
                [{"role": "user", "content": f"Open the {box} box."}],
                [{"role": "user", "content": "Put a spoon into it."}],
            ],
            "initial_config": {"MathAPI": {}},
            "path": ["MathAPI.open_box"],
            "involved_classes": ["MathAPI"],
        }
        for number, box in enumerate(BOXES)
    ]
    truths = [
        {"id": f"multi_turn_base_{number}", "ground_truth": [[f"open_box('{box}')"], ["put(thing='spoon')"]]}
        for number, box in enumerate(BOXES)
    ]
    results = [
        {
            "id": f"multi_turn_base_{number}",
            "result": [[[{"open_box": "{}"}], "Done."], [[{"put": "{}"}], "Done."]],
            "input_token_count": [[1.0]],
            "inference_log": [
                [{"role": "state_info", "class_name": "MathAPI", "content": {}}],
                {
                    "begin_of_turn_query": [{"role": "user", "content": f"Open the {box} box."}],
                    "step_0": step([f"open_box(box='{box}')"], ['{"error": "locked"}' if number == 1 else "{}"]),
                    "step_1": [
                        {"role": "assistant", "content": "Done."},
                        {"role": "handler_log", "content": "Error decoding the model response.", "error": "no call"},
                    ],
                },
            ],
        }
        for number, box in enumerate(BOXES)
    ]
    scores = [
        {"accuracy": 0.75, "correct_count": 3, "total_count": 4},
        {"id": "multi_turn_base_1", "model_name": "m", "valid": False, "error": {"error_type": "x"}, "prompt": {}},
    ]
    lines(folder / "possible_answer" / QUESTIONS, truths)
    lines(folder / "multi_turn_func_doc" / "math_api.json", DOCUMENTS)
    lines(folder / QUESTIONS, questions)
    lines(folder / RESULTS, results)
    lines(folder / SCORES, scores)


@pytest.fixture
def bfcl(tmp_path: Path) -> TaskSet:
    make_bfcl(tmp_path)
    return read_bfcl(tmp_path / QUESTIONS, tmp_path / RESULTS, tmp_path / SCORES)


@pytest.fixture
def appworld(tmp_path: Path) -> TaskSet:
    """Two scenarios of two variants, one of them not solved."""
    outputs, data = tmp_path / "outputs" / "react", tmp_path / "data"
    verdicts = {}
    for task_id in ("aa11_1", "aa11_2", "bb22_1", "bb22_2"):
        folder = data / "tasks" / task_id
        (folder / "ground_truth").mkdir(parents=True)
        (folder / "specs.json").write_text(
            json.dumps({"instruction": f"Water the plants of room {task_id}.", "supervisor": {}, "datetime": "x"})
        )
        (folder / "ground_truth" / "required_apis.json").write_text('["garden.list_plants", "garden.water"]')
        logs = outputs / "tasks" / task_id / "logs"
        logs.mkdir(parents=True)
        bar = "-" * 76
        (logs / "environment_io.md").write_text(
            f"\n### Environment Interaction 1\n{bar}\n```python\nprint(apis.garden.list_plants())\n```\n\n"
            f'```\n[{{"id": 1, "note": "```"}}]\n```\n\n\n'
            f"### Environment Interaction 2\n{bar}\n```python\napis.supervisor.complete_task()\n```\n\n"
            "```\nExecution successful.\n```\n\n"
        )
        verdicts[task_id] = {"success": task_id != "bb22_2", "difficulty": 1, "num_tests": 2, "passes": []}
    (outputs / "evaluations").mkdir()
    (outputs / "evaluations" / "dev.json").write_text(json.dumps({"aggregate": {}, "individual": verdicts}))
    return read_appworld(outputs, data)


def test_bfcl_has_turns_right_calls_functions_and_attempts_with_their_scores(bfcl: TaskSet) -> None:
    first = bfcl.tasks[0]
    assert first.turns == ("Open the red box.", "Put a spoon into it.")
    assert (first.category, first.tools) == ("multi_turn_base", ("open_box", "put"))
    assert [document.name for document in first.functions] == ["open_box", "put"]
    assert [task.attempt.score for task in bfcl.tasks if task.attempt] == [1, 0, 1, 1]
    assert first.attempt is not None
    assert [message.role for message in first.attempt.messages] == ["user", "assistant", "tool", "assistant"]
    assert "red" in first.attempt.messages[1].full_text
    assert [len(half) for half in bfcl.halves()] == [2, 2]


def test_appworld_has_instruction_needed_apis_and_each_interaction(appworld: TaskSet) -> None:
    first = appworld.tasks[0]
    assert first.instruction == "Water the plants of room aa11_1."
    assert first.tools == ("garden.list_plants", "garden.water")
    assert first.attempt is not None
    assert [message.role for message in first.attempt.messages] == ["user", *["assistant", "tool"] * 2]
    assert '"note": "```"' in first.attempt.messages[2].full_text
    assert [task.attempt.score for task in appworld.tasks if task.attempt] == [1, 1, 1, 0]


def test_variants_of_one_scenario_never_stand_on_both_sides(appworld: TaskSet) -> None:
    learnt, asked = appworld.halves()
    assert ({task.family for task in learnt}, {task.family for task in asked}) == ({"aa11"}, {"bb22"})


def test_files_of_another_form_are_refused_and_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"wrong\.json' can't be read"):
        read_bfcl(lines(tmp_path / "wrong.json", [{"id": 1}]))
    make_bfcl(tmp_path)
    log = [{"begin_of_turn_query": [{"role": "user", "content": "\ud800"}]}]
    lines(tmp_path / RESULTS, [{"id": "multi_turn_base_0", "inference_log": log}])
    lines(tmp_path / SCORES, [{"correct_count": 1, "total_count": 1}])
    with pytest.raises(InvalidInputError, match=r"_result\.json' can't be read"):
        read_bfcl(tmp_path / QUESTIONS, tmp_path / RESULTS, tmp_path / SCORES)
    with pytest.raises(InvalidInputError, match="appworld evaluate"):
        read_appworld(tmp_path, tmp_path)
    with pytest.raises(InvalidInputError, match="go together"):
        read_bfcl(tmp_path / "q.json", results=tmp_path / "r.json")


@pytest.mark.parametrize(
    ("call", "read"),
    [
        ("open_box('red')", ("open_box", {"box": "red", "gently": True})),
        ("Boxes.open_box(gently=False, box='red')", ("open_box", {"box": "red", "gently": False})),
        ("put('a', 2)", ("put", {"0": "a", "1": 2})),
        ("put(('a', 1))", ("put", {"0": ["a", 1]})),
        ("put(1e999)", ("put(1e999)", {})),
        ("open_box(box=name)", ("open_box(box=name)", {})),
        ("Done.", ("Done.", {})),
    ],
)
def test_calls_are_read_with_names_and_defaults_of_their_document(call: str, read: object) -> None:
    document = FunctionDoc.model_validate(DOCUMENTS[0])
    assert parse_call(call, {document.name: document}) == read


async def test_without_a_model_the_attempts_are_found_as_they_were(appworld: TaskSet, tmp_path: Path) -> None:
    async with ReMe("tasks", tmp_path / "memory", llm=None, embedding=None) as memory:
        await task_runs.learn(memory, appworld)
        told = await task_runs.retrieve(memory, appworld)
    means = {(part.system, part.figure): part.mean for part in told.summary if part.category == "all"}
    assert means[task_runs.ATTEMPTS, task_runs.NAMED] == 0.5
    assert means[task_runs.WITHOUT, task_runs.FIRST_TRY] == 0.5
    assert (task_runs.ATTEMPTS, task_runs.FIRST_TRY) not in means
    assert "list_plants" in (told.rows[-1].notes or "")
    assert told.systems[1].not_measured


async def test_verdicts_of_an_agent_that_had_the_notes_stand_beside_those_before(
    appworld: TaskSet, tmp_path: Path
) -> None:
    later = replace(appworld, tasks=tuple(replace(task, solved=True) for task in appworld.tasks))
    async with ReMe("tasks", tmp_path / "memory", llm=None, embedding=None) as memory:
        await task_runs.learn(memory, appworld)
        told = await task_runs.retrieve(memory, appworld, later)
    (gain,) = [pair for pair in told.paired if pair.figure == task_runs.FIRST_TRY]
    assert (gain.difference, gain.n) == (0.5, 2)
    async with ReMe("tasks", tmp_path / "memory", llm=None, embedding=None) as memory:
        with pytest.raises(InvalidInputError, match="no verdict"):
            await task_runs.retrieve(memory, appworld, replace(later, tasks=later.tasks[:2]))


async def test_lessons_of_the_first_half_help_with_the_second_at_the_first_try(bfcl: TaskSet, tmp_path: Path) -> None:
    lesson = {
        "when_to_use": "A task with boxes",
        "content": "Open a box with open_box, then use put.",
        "tags": [],
        "confidence": 0.9,
        "step_type": "action",
        "tools_used": [],
        "messages": [1],
    }

    def learn_or_judge(request: ChatRequest) -> str:
        assert request.response_schema is not None
        if request.response_schema.name == "verdicts":
            return json.dumps({"verdicts": [{"n": 1, "score": 0.9, "reason": "it names the functions"}]})
        return json.dumps({"experiences": [lesson]})

    def write(request: ChatRequest) -> str:
        asked = request.messages[-1].text
        box = next(box for box in BOXES[2:] if box in asked)
        calls = [{"calls": [f"open_box(box='{box}', gently=True)"]}, {"calls": ["put(thing='spoon')"]}]
        return json.dumps({"turns": calls if "<lessons>" in asked else calls[:1]})

    teacher, solver = ScriptedChatModel([learn_or_judge] * 20), ScriptedChatModel([write] * 4)
    async with ReMe("tasks", tmp_path / "memory", llm=teacher, embedding=None) as memory:
        await task_runs.learn(memory, bfcl)
        told = await task_runs.retrieve(memory, bfcl)
    assert all(row.notes for row in told.rows if row.system == task_runs.LESSONS)
    book = AnswerBook(tmp_path / "book")
    with solver:
        made = await task_runs.solve(told, bfcl, NamedModel("solver", solver), book)
    means = {(part.system, part.figure): part.mean for part in made.summary if part.category == "all"}
    assert means[task_runs.WITHOUT, task_runs.FIRST_TRY] == 0
    assert means[task_runs.WITHOUT, task_runs.TURNS_RIGHT] == 0.5
    assert means[task_runs.LESSONS, task_runs.FIRST_TRY] == 1
    assert made.prompts.reader is not None
    down = NamedModel("solver", ScriptedChatModel([ModelUnavailableError("down")] * 4))
    failed = await task_runs.solve(told, bfcl, down, AnswerBook(tmp_path / "other"))
    assert not [part for part in failed.summary if part.figure == task_runs.FIRST_TRY]
    again = await task_runs.solve(told, bfcl, NamedModel("solver", ScriptedChatModel()), book)
    assert again.rows == made.rows
    assert "spoon" not in solver.requests[0].messages[0].text


async def test_second_run_learns_from_no_attempt_again(bfcl: TaskSet, tmp_path: Path) -> None:
    bfcl_again = read_bfcl(tmp_path / QUESTIONS, tmp_path / RESULTS, tmp_path / SCORES)
    for tasks in (bfcl, bfcl_again):
        async with ReMe("tasks", tmp_path / "memory", llm=None, embedding=None) as memory:
            await task_runs.learn(memory, tasks)
            blocks = await memory.stats(user_id="agent")
            assert blocks.messages == 8


async def test_set_without_right_calls_or_attempts_says_what_to_do(appworld: TaskSet, tmp_path: Path) -> None:
    bare = TaskSet(name="AppWorld", licence="", file="f", sha256="", tasks=())
    async with ReMe("tasks", tmp_path / "memory", llm=None, embedding=None) as memory:
        with pytest.raises(InvalidInputError, match="no attempts in its first half"):
            await task_runs.learn(memory, bare)
        await task_runs.learn(memory, appworld)
        told = await task_runs.retrieve(memory, appworld)
    with pytest.raises(InvalidInputError, match="no right calls"):
        await task_runs.solve(told, appworld, NamedModel("m", ScriptedChatModel()), AnswerBook(tmp_path / "book"))


async def test_attempt_that_left_no_log_counts_as_the_failure_that_it_is(tmp_path: Path) -> None:
    make_bfcl(tmp_path)
    results = [json.loads(line) for line in (tmp_path / RESULTS).read_text().splitlines()]
    del results[3]["inference_log"]
    lines(tmp_path / RESULTS, results)
    scores = [
        {"correct_count": 2, "total_count": 4},
        {"id": "multi_turn_base_1", "valid": False},
        {"id": "multi_turn_base_3", "valid": False},
        {"id": "multi_turn_base_3", "valid": False},
    ]
    tasks = read_bfcl(tmp_path / QUESTIONS, tmp_path / RESULTS, lines(tmp_path / SCORES, scores))
    assert [(task.attempt is None, task.solved) for task in tasks.tasks[2:]] == [(False, True), (True, False)]
    async with ReMe("tasks", tmp_path / "memory", llm=None, embedding=None) as memory:
        told = await task_runs.retrieve(memory, tasks)
    (first,) = [part for part in told.summary if (part.figure, part.category) == (task_runs.FIRST_TRY, "all")]
    assert (first.mean, first.n) == (0.5, 2)


@pytest.mark.parametrize(
    "scores",
    [
        [],
        [{"correct_count": 3, "total_count": 4}],
        [{"correct_count": 3, "total_count": 9}, {"id": "multi_turn_base_1", "valid": False}],
        [{"id": "multi_turn_base_1", "valid": False}],
    ],
)
def test_scores_that_are_cut_off_make_no_successes(tmp_path: Path, scores: Sequence[object]) -> None:
    make_bfcl(tmp_path)
    lines(tmp_path / SCORES, scores)
    with pytest.raises(InvalidInputError, match="whole evaluation of 4 results"):
        read_bfcl(tmp_path / QUESTIONS, tmp_path / RESULTS, tmp_path / SCORES)


def test_memory_of_other_attempts_or_of_another_model_is_another_one(appworld: TaskSet, tmp_path: Path) -> None:
    """A task of the second half may have been in the first half of another run into the same file."""
    part = replace(appworld, tasks=appworld.tasks[2:])
    places = [
        task_runs.memory_of(tasks, model, tmp_path / "r.json")
        for tasks, model in ((appworld, None), (appworld, "m"), (part, None), (appworld, None))
    ]
    assert places[0] == places[3]
    assert len(set(places)) == 3


def test_calls_of_a_turn_too_many_are_wrong_and_empty_ones_are_none(bfcl: TaskSet) -> None:
    right = [["open_box('red')"], ["put(thing='spoon')"]]
    assert task_runs.turns_right(bfcl.tasks[0], [*right, []]) == [True, True]
    assert task_runs.turns_right(bfcl.tasks[0], [*right, ["put(thing='fork')"]]) == [True, True, False]
    assert task_runs.turns_right(bfcl.tasks[0], right[:1]) == [True, False]
