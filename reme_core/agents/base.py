"""The base of memory agents: options, arguments, and the way from a task to a run of the loop."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo

from reme_core.agents.loop import LastStep, Limits, OnText, StopRule, run_loop
from reme_core.errors import ConfigurationError, InvalidInputError, PartialFailureError
from reme_core.ports import AgentResult, AgentTask, ChatModel, Target, Tool, ToolContext
from reme_core.schema import MemoryType, Message, Source, TextBlock, describe, parse_messages, utc_now
from reme_core.steps.message_bytes import with_bytes
from reme_core.steps.user_input import check_language, read_text
from reme_core.text import Language, Prompt, load_prompt, prompt_language
from reme_core.tools import ThinkToolOp

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FOR_TOOL = re.compile(r"\[([a-z_]+)\] ")


def _read_messages(value: object, info: ValidationInfo) -> tuple[Message, ...]:
    return parse_messages(value, now=info.context["now"] if info.context else utc_now)


class AgentArguments(BaseModel):
    """What an agent is called with.

    Attributes:
        workspace_id: The memory space; that of the context.
        query: A question or an instruction.
        messages: What it is about: `Message` objects, dictionaries or `(role, text)` pairs, in order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    workspace_id: str
    query: str = ""
    messages: Annotated[tuple[Message, ...], BeforeValidator(_read_messages)] = ()

    def task(self) -> AgentTask:
        """Return the task that they describe."""
        return AgentTask(workspace_id=self.workspace_id, query=self.query, messages=self.messages)


class TargetArguments(AgentArguments):
    """What an agent of one target is called with.

    Attributes:
        memory_target: Whom or what it is about.
        ref_memory_id: The block that the messages lie in; it gives the messages where there are none.
    """

    memory_target: Annotated[str, Field(min_length=1)]
    ref_memory_id: Annotated[str, Field(min_length=1)]

    def task(self) -> AgentTask:
        """Return the task that they describe."""
        return replace(super().task(), memory_target=self.memory_target, ref_memory_id=self.ref_memory_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Options that every agent has.

    Attributes:
        model: The chat model; None takes that of the context.
        tools: Instead of the agent's own tools.
        system_prompt: Instead of its own system prompt, in every language.
        language: Of its prompts; None goes by the messages and the query.
        limits: Instead of its own limits.
        enable_multiple: Its tools take lists of items.
        enable_thinking_params: Its tools require a text `thinking`.
        enable_think_tool: Adds a tool to think with.
    """

    model: ChatModel | None = None
    tools: Sequence[Tool] | None = None
    system_prompt: str | None = None
    language: Language | None = None
    limits: Limits | None = None
    enable_multiple: bool = True
    enable_thinking_params: bool = False
    enable_think_tool: bool = False

    def __post_init__(self) -> None:
        """Check the system prompt (InvalidInputError: it is blank) and the language (ConfigurationError)."""
        check_language(self.language)
        if self.system_prompt is not None and not read_text(self.system_prompt, "system_prompt").strip():
            msg = "system_prompt: is blank; leave it out for the agent's own"
            raise InvalidInputError(msg)


DEFAULT_OPTIONS = AgentOptions()


class BaseMemoryAgentOp(ABC):
    """An agent over memories; subclass it, or one of the agents built on it, for one of your own.

    A subclass names itself and its prompts, builds its tools and says what its prompt is filled with:

    ```python
    class HobbyAgentOp(PersonalSummaryAgentV1Op):
        name = "hobby_agent"
        prompt = "my_package:hobbies"  # the files hobbies.en.md and hobbies.zh.md in its folder prompts

        def build_tools(self):
            return [*super().build_tools(), MyToolOp()]
    ```

    One that says nothing at all begins as version 1: `class ToolSummaryAgentV2Op(BaseMemoryAgentOp): pass` is a
    `ToolSummaryAgentV1Op` with a name of its own, and one whose name is of no agent a `PersonalSummaryAgentV1Op`.

    The system prompt takes no variables: what comes from users, memories or files stands in the task prompt, fenced as
    data, which becomes the user's message. A line of it that begins with the name of a tool in brackets, as
    `[add_memory] - new: add_memory`, is told only to an agent that has this tool. An object holds options, never the
    state of a run, so any number of runs may be under way at once.

    Attributes:
        name: Who writes.
        description: What it does.
        memory_type: The type of memory that it works on, one target at a time; None for one that works on several.
        prompt: The file of its system prompt, without language and ending; one of another package is `package:name`.
        task_prompt: The file of the user's message, named in the same way; its variables are those of `prepare`.
        arguments: The model of what it is called with.
        own_limits: Its limits, unless it is given others.
        last_step: See `run_loop`.
        last_tools: See `run_loop`.
        final_tools: See `StopRule`: where a model calls nothing else, its calls are its last word. None unless named:
            the model is asked once more then, and answers in words.
        needed_tools: See `StopRule`.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    memory_type: ClassVar[MemoryType | None] = None
    prompt: ClassVar[str]
    task_prompt: ClassVar[str]
    arguments: ClassVar[type[AgentArguments]] = AgentArguments
    own_limits: ClassVar[Limits] = Limits()
    last_step: ClassVar[LastStep] = "raise"
    last_tools: ClassVar[frozenset[str]] = frozenset()
    final_tools: ClassVar[frozenset[str]] = frozenset()
    needed_tools: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, options: AgentOptions = DEFAULT_OPTIONS) -> None:
        """Keep the options and build the tools; a subclass sets options of its own before it calls this."""
        self.options = options
        self.limits = options.limits or self.own_limits
        chosen = self.build_tools() if options.tools is None else options.tools
        self.tools: tuple[Tool, ...] = (*chosen, ThinkToolOp()) if options.enable_think_tool else tuple(chosen)

    def __init_subclass__(cls) -> None:
        """Put a direct subclass that says nothing of its own (`pass`) below the agent whose next version it is."""
        super().__init_subclass__()
        is_direct = cls.__bases__ == (BaseMemoryAgentOp,)
        if is_direct and vars(cls).keys().isdisjoint({"prompt", "task_prompt", "build_tools", "prepare"}):
            from reme_core.agents.reme import first_version  # noqa: PLC0415  # made of this class, so not above it

            cls.__bases__ = (first_version(cls.__name__),)
            if "name" not in vars(cls):
                cls.name = _CAPITAL.sub("_", cls.__name__.removesuffix("Op")).lower()

    @abstractmethod
    def build_tools(self) -> Sequence[Tool]:
        """Build its tools under its options; called once, unless it is given tools."""

    @abstractmethod
    async def prepare(self, task: AgentTask, context: ToolContext) -> Mapping[str, str]:
        """Return the variables of the task prompt; what the agent itself reads beforehand is read here."""

    async def begin(self, task: AgentTask, context: ToolContext) -> ToolContext:
        """Return the context of its tools: its name as author, its model, the messages and where they come from.

        Raises:
            InvalidInputError: The task is of another memory space, type or target than the context, or empty.
        """
        self._check(task, context)
        sources = context.sources
        if task.ref_memory_id is not None and not sources:
            said = tuple(message.message_id for message in task.messages)
            sources = (Source(block_id=task.ref_memory_id, message_ids=said),)
        return replace(
            context,
            author=self.name,
            model=self.options.model or context.model,
            messages=tuple(task.messages),
            sources=sources,
        )

    def ending(self, context: ToolContext) -> StopRule:
        """Return when a run within a context ends; see `StopRule`."""
        del context  # for those that have to come to something there
        return StopRule(
            final_tools=self.final_tools, needed_tools=self.needed_tools, one_call_ends=self.options.enable_multiple
        )

    def conversation(self, task: AgentTask, told: str) -> list[Message]:
        """Return what is said to the model after the system prompt; `told` is the filled task prompt."""
        del task  # it is in `told`
        return [Message(role="user", content=(TextBlock(text=told),))]

    async def run(self, task: AgentTask, context: ToolContext, *, on_text: OnText | None = None) -> AgentResult:
        """Do a task within a context.

        What a failed run has cost is added to `context.trace.usage`; what a finished one has cost is in its result.

        Args:
            task: What is to be done.
            context: What may be touched; an agent of one type is given its type and target there.
            on_text: See `run_loop`.

        Raises:
            InvalidInputError: The task doesn't go with the context, or says nothing.
            ConfigurationError: There is no chat model.
            RunError: It used up its steps, tokens or seconds.
            ModelError: The model failed, or answered twice what can't be used.
            StoreError: Reading or writing failed.
        """
        model = self.options.model or context.model
        if model is None:
            msg = (
                f"{self.name} needs a chat model: set REME_LLM_MODEL and REME_LLM_API_KEY, or give one as llm= "
                "or in the agent's options"
            )
            raise ConfigurationError(msg)
        context = await self.begin(task, context)
        language = self.language_of(task)
        system, label = self._system(language)
        system = f"{system}\n\n{context.guidance}" if context.guidance else system
        prompt = _load(self.task_prompt, language)
        told = prompt.fill(await self.prepare(task, context))
        said = await with_bytes(context.store, context.scope, self.conversation(task, told))
        done = await run_loop(
            model,
            self.tools,
            [Message(role="system", content=(TextBlock(text=system),)), *said],
            context,
            self.limits,
            last_step=self.last_step,
            ending=self.ending(context),
            last_tools=self.last_tools,
            on_text=on_text,
        )
        return replace(done, prompts=(label, prompt.label))

    async def __call__(
        self,
        arguments: Mapping[str, object] | AgentArguments,
        context: ToolContext,
        *,
        on_text: OnText | None = None,
    ) -> AgentResult:
        """Check arguments and run the agent by itself, outside a pipeline.

        An agent of one type takes its target from the arguments where the context leaves it open.

        Raises:
            InvalidInputError: The arguments are wrong, or don't go with the context.
            BlockNotFoundError: `ref_memory_id` is no block of the scope.
            PartialFailureError: Agents that work was handed to have failed; `done` is the result, and what the others
                did is kept. A pipeline reads this from the trace.
            ReMeError: As `run`.
        """
        task = self._read(arguments, context).task()
        self._check_space(task, context)
        if task.ref_memory_id is not None:
            task = await _with_block(task, context)
        if self.memory_type is not None and context.memory_type is None and context.memory_target is None:
            context = replace(context, memory_type=self.memory_type, memory_target=self.target_of(task))
        failed_before = len(context.trace.failures)
        result = await self.run(task, context, on_text=on_text)
        failures = [error for _, error in context.trace.failures[failed_before:]]
        if failures:
            msg = f"{self.name}: {len(failures)} of the agents that work was handed to failed; the first: {failures[0]}"
            raise PartialFailureError(msg, done=result, failures=failures)
        return result

    def language_of(self, task: AgentTask) -> Language:
        """Return the language of the prompts: the fixed one, or that of the messages and the query."""
        return self.options.language or prompt_language([task.query, *(message.text for message in task.messages)])

    def target_of(self, task: AgentTask) -> str | None:
        """Return the target of a task."""
        return task.memory_target

    def _system(self, language: Language) -> tuple[str, str]:
        if self.options.system_prompt is not None:
            return self.options.system_prompt, f"{self.name}.custom"
        prompt = _load(self.prompt, language)
        return _for_tools(prompt.fill({}), [tool.name for tool in self.tools]), prompt.label

    def _read(self, arguments: Mapping[str, object] | AgentArguments, context: ToolContext) -> AgentArguments:
        given = dict(arguments) if isinstance(arguments, (Mapping, BaseModel)) else arguments
        try:
            return self.arguments.model_validate(given, context={"now": context.clock.now})
        except ValidationError as exc:
            raise InvalidInputError(describe(exc, f"{self.name}: arguments")) from exc

    def _check_space(self, task: AgentTask, context: ToolContext) -> None:
        if task.workspace_id != context.scope.memory_space:
            msg = (
                f"{self.name}: workspace_id {task.workspace_id!r} is not the memory space of the context, "
                f"{context.scope.memory_space!r}: one call stays in one space"
            )
            raise InvalidInputError(msg)

    def _check(self, task: AgentTask, context: ToolContext) -> None:
        self._check_space(task, context)
        if not task.messages and not task.query.strip():
            msg = f"{self.name}: there is nothing to work on: give messages, a query, or both"
            raise InvalidInputError(msg)
        if self.memory_type is None:
            return
        wanted, given = self.target_of(task), context.memory_target
        if context.memory_type is not self.memory_type or wanted is None or wanted != given:
            msg = (
                f"{self.name} works on one target of type {self.memory_type.value!r}, the task's {wanted!r}; the "
                f"context is about {given!r} of type {context.memory_type!r}: they have to be the same"
            )
            raise InvalidInputError(msg)
        if context.targets is not None and Target(self.memory_type, wanted) not in context.targets:
            msg = f"{self.name}: {wanted!r} of type {self.memory_type.value!r} is none of the targets of this call"
            raise InvalidInputError(msg)


def _for_tools(text: str, names: Collection[str]) -> str:
    """Return a prompt with those lines for single tools whose tool is there, without their marks."""
    lines = [(_FOR_TOOL.match(line), line) for line in text.splitlines()]
    return "\n".join(line[mark.end() :] if mark else line for mark, line in lines if not mark or mark[1] in names)


def _load(name: str, language: Language) -> Prompt:
    package, _, file = name.rpartition(":")
    return load_prompt(package or "reme_core.agents", file, language)


async def _with_block(task: AgentTask, context: ToolContext) -> AgentTask:
    """Return the task with the messages of its block, where it brings none."""
    assert task.ref_memory_id is not None  # noqa: S101  # asked by the caller
    [block] = await context.store.get_blocks(context.scope, [task.ref_memory_id])
    if task.messages:
        return task
    stored = await context.store.get_messages(context.scope, block.message_ids)
    return replace(task, messages=tuple(item.message for item in stored))
