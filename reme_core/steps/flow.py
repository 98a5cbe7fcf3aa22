"""Flows: small async functions over values, one after the other and side by side, and the context of one run.

`first >> second` hands what the first returns to the second. `one | other` gives both the same value, runs them side by
side and joins the tuples that they return, in this order. Python binds `>>` closer than `|`, so stages side by side in
the middle of a flow stand in brackets: `prepare >> (one | other) >> check`. What a stage needs besides the value comes
as its second argument, a context that is the same for all stages of a run.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from reme_core.errors import ConfigurationError, ReMeError
from reme_core.ports import ChatModel, Clock, Embedder, Matrix, Store, Vector
from reme_core.retrieval.embedding import try_embedding
from reme_core.schema import RejectedExperience, Scope, Usage
from reme_core.steps.ask_json import MeteredChatModel
from reme_core.steps.user_input import missing_model_message
from reme_core.text import Language

T = TypeVar("T")


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
X = TypeVar("X")


@dataclass(frozen=True, slots=True)
class Stage(Generic[A, B, X]):
    """A step from a value to another one, or several steps that work as one.

    Attributes:
        run: Takes the value and the context of the run; keeps nothing between two calls.
        name: What it is called: that of the function, or that given by `named`.
        steps: What it is made of, as written: `prepare >> (one | other)`; the name, for a single step.
        forks: Whether `steps` are some side by side, which stand in brackets where others come before or after them.
    """

    run: Callable[[A, X], Awaitable[B]]
    name: str
    steps: str
    forks: bool = False

    async def __call__(self, value: A, context: X) -> B:
        """Run it; raises what its stages raise, the first failure alone where some ran side by side."""
        return await self.run(value, context)

    def __rshift__(self, then: Stage[B, C, X]) -> Stage[A, C, X]:
        """Return a flow that hands on what this one returns."""
        if not isinstance(then, Stage):
            return NotImplemented

        async def run(value: A, context: X) -> C:
            return await then.run(await self.run(value, context), context)

        return Stage(run, "", f"{_bracketed(self)} >> {_bracketed(then)}")

    def __or__(self: Stage[A, tuple[T, ...], X], other: Stage[A, tuple[T, ...], X]) -> Stage[A, tuple[T, ...], X]:
        """Return a flow that runs both side by side and joins their results; one that fails cancels the other."""
        if not isinstance(other, Stage):
            return NotImplemented

        async def run(value: A, context: X) -> tuple[T, ...]:
            results = await for_each(lambda part: part.run(value, context), (self, other))
            return tuple(item for result in results for item in result)

        return Stage(run, "", f"{self.label} | {other.label}", forks=True)

    def named(self, name: str) -> Stage[A, B, X]:
        """Return the same under a name, by which a larger flow shows it."""
        return Stage(self.run, name, self.steps, self.forks)

    @property
    def label(self) -> str:
        """The name if it has one, else what it is made of."""
        return self.name or self.steps

    def __str__(self) -> str:
        """Tell what it is made of."""
        return self.steps


def stage(run: Callable[[A, X], Awaitable[B]], name: str = "") -> Stage[A, B, X]:
    """Make a stage of an async function of a value and a context; without a name it has that of the function.

    To be used as a decorator, or by a function that makes stages with options.

    Raises:
        TypeError: It is not an async function, nor an object that is called like one.
    """
    if not (inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(getattr(run, "__call__", None))):  # noqa: B004
        msg = f"stage: wanted an async function of a value and a context, found {run!r:.100}"
        raise TypeError(msg)
    name = name or getattr(run, "__name__", type(run).__name__)
    return Stage(run, name, name)


async def for_each(work: Callable[[A], Awaitable[B]], items: Iterable[A], *, at_once: int | None = None) -> list[B]:
    """Do the same with several values side by side and return the results in the order of the values.

    The first failure cancels the others, and is raised alone once they have ended; a bug goes before a ReMeError.

    Args:
        work: Done with each.
        items: The values.
        at_once: At most so many at the same time; None: all of them.
    """
    values = tuple(items)
    slots = asyncio.Semaphore(at_once or max(1, len(values)))

    async def one(item: A) -> B:
        async with slots:
            return await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in values]
    except BaseExceptionGroup as failures:
        failure = _first(failures)
    else:
        return [task.result() for task in tasks]
    # Outside of the handler, so that the failure keeps the cause and the context that it came with.
    try:
        raise failure
    finally:
        del failure  # it holds this frame, which would hold it


def _bracketed(part: Stage[A, B, X]) -> str:
    return f"({part.steps})" if part.forks and not part.name else part.label


def _first(failures: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first failure; one that is no ReMeError is a bug and must not hide behind others."""
    errors = [_first(error) if isinstance(error, BaseExceptionGroup) else error for error in failures.exceptions]
    return next((error for error in errors if not isinstance(error, ReMeError)), errors[0])


@dataclass(slots=True)
class FlowTrace:
    """What happens in one run beside its values, written down as it goes on.

    Attributes:
        rejected: Experiences that a stage left out, and why.
        usage: What calls of models have cost.
        vectors: The vectors of texts that were embedded on the way, for whoever writes memories of these texts.
        degraded: What failed and was done without, in the order of failing.
    """

    rejected: list[RejectedExperience] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    vectors: dict[str, Vector] = field(default_factory=dict)
    degraded: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowContext:
    """What the stages of a run may touch. Made by us, never by a model.

    Attributes:
        scope: Whose data.
        memory_target: The task domain that the run is about; None: any, for a run that only reads.
        store: What is known. A stage reads it; what is to be written is what the flow returns.
        embedder: Gives vectors to texts; None compares them by their words.
        model: The chat model; None where the run needs none.
        clock: Tells the time.
        run_id: The run that the write will carry.
        language: Of the prompts; None follows the texts.
        trace: What happened so far.
    """

    scope: Scope
    memory_target: str | None = None
    store: Store
    embedder: Embedder | None = None
    model: ChatModel | None = None
    clock: Clock
    run_id: str = ""
    language: Language | None = None
    trace: FlowTrace = field(default_factory=FlowTrace)

    async def try_embedding(self, texts: Sequence[str]) -> Matrix | None:
        """Return the vectors of texts; None without an embedder, or where it fails, which the trace tells."""
        if self.embedder is None or not texts:
            return None
        rows = await try_embedding(self.embedder, texts)
        if isinstance(rows, str):
            self.trace.degraded[rows] = None
            return None
        self.trace.usage += Usage(embedding_calls=1)
        return rows

    async def vectors(self, texts: Iterable[str]) -> dict[str, Vector]:
        """Return the vectors that the trace has, those of texts that it lacked among them; see `try_embedding`."""
        missing = [text for text in dict.fromkeys(texts) if text not in self.trace.vectors]
        rows = await self.try_embedding(missing)
        if rows is not None:
            self.trace.vectors.update(zip(missing, rows, strict=True))
        return self.trace.vectors

    def chat_model(self, wanted_for: str) -> ChatModel:
        """Return the model, whose calls the trace counts (ConfigurationError: there is none)."""
        if self.model is None:
            msg = f"{missing_model_message(wanted_for)}, or a flow without this stage"
            raise ConfigurationError(msg)
        return MeteredChatModel(self.model, self.trace)
