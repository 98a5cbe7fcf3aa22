"""The ports of tools and agents: what a loop calls, and what it hands over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Protocol, runtime_checkable

from pydantic import BaseModel

from reme_core.errors import ReMeError
from reme_core.ports.memory_store import Target
from reme_core.ports.models import ChatModel, Clock, Embedder, TokenCounter
from reme_core.ports.store import Store
from reme_core.schema import Hit, MemoryType, Message, Scope, Source, Usage, new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaMemory:
    """An entry of the routing table: a target, what it is about, and how many current memories there are."""

    target: Target
    description: str = ""
    memories: int = 0


@dataclass(slots=True)
class RunTrace:
    """What happens in one run, written down as it goes on; shared by the agents of the run.

    Attributes:
        hits: What was found and shown to a model, in order.
        done: Targets whose agents have finished.
        failures: Targets whose agents have failed, and why.
        unknown: Targets that were to be handed on and that there are not, as long as they are neither added nor left
            out.
        nothing: Why nothing was to be handed on, in the words of who decided so.
        usage: What sub-agents, embeddings and failed runs have cost; what a finished run's own model calls have cost
            is in its result.
        degraded: What failed and was done without, in the order of failing.
        shown_blocks: The memory blocks that a model was shown, by label, with their revisions.
    """

    hits: list[Hit] = field(default_factory=list)
    done: list[Target] = field(default_factory=list)
    failures: list[tuple[Target, ReMeError]] = field(default_factory=list)
    unknown: list[Target] = field(default_factory=list)
    nothing: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    degraded: dict[str, None] = field(default_factory=dict)
    shown_blocks: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool may touch. Made by us, never by a model.

    Attributes:
        scope: Whose data.
        store: What is kept, with the memories as the call is to see and change them: the store, or a draft over it.
        embedder: Gives vectors to what is written and asked; None leaves both to their words.
        model: The chat model of agents that were given none.
        clock: Tells the time.
        token_counter: Counts the tokens of memory blocks; None estimates them by characters.
        run_id: The run that writes carry.
        author: Who writes: the name of an agent.
        memory_type: The type that the call is about. None: any, where the tool's arguments choose.
        memory_target: The target that the call is about. None: any, where the tool's arguments choose.
        targets: Those that may be read or handed on. None: all of the scope.
        elsewhere: Other targets of the same type, worked on at the same time, that keep what they share with this one.
        sources: The block and messages that what is written comes from.
        messages: The messages that the call is about, in order.
        instruction: What the run is asked besides, such as a reviewer's findings; sub-agents are asked it, too.
        guidance: What the application wants of memories, as prompts show it: fenced; "" for nothing.
        zone: Where the user is: times are shown and read in it.
        trace: What happened so far.
    """

    scope: Scope
    store: Store
    embedder: Embedder | None = None
    model: ChatModel | None = None
    clock: Clock
    token_counter: TokenCounter | None = None
    run_id: str = field(default_factory=new_id)
    author: str = "agent"
    memory_type: MemoryType | None = None
    memory_target: str | None = None
    targets: frozenset[Target] | None = None
    elsewhere: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    messages: tuple[Message, ...] = ()
    instruction: str = ""
    guidance: str = ""
    zone: tzinfo = UTC
    trace: RunTrace = field(default_factory=RunTrace)


@runtime_checkable
class Tool(Protocol):
    """Something that a model may call."""

    @property
    def name(self) -> str:
        """The name that the model writes."""

    @property
    def description(self) -> str:
        """What it does, for the model."""

    @property
    def arguments(self) -> type[BaseModel]:
        """The model of its arguments; unknown keys must be refused."""

    @property
    def is_concurrent(self) -> bool:
        """Whether calls next to each other in one answer may run at once: it reads, or its calls don't meet."""

    async def run(self, arguments: BaseModel, context: ToolContext) -> str:
        """Do it, and answer in words for the model.

        Raises:
            ToolFeedback: The model has to correct something; the text says what.
            ReMeError: Anything else; it ends the run.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTask:
    """What an agent is asked to do. `workspace_id` is the memory space; it must be that of the context's scope.

    Attributes:
        workspace_id: The memory space.
        memory_target: Whom or what it is about, for agents of one target.
        query: A question or an instruction.
        messages: What it is about, in order.
        ref_memory_id: The block that the messages lie in.
        notes: What was found for the query already, fenced as data; "" for nothing.
    """

    workspace_id: str
    memory_target: str | None = None
    query: str = ""
    messages: Sequence[Message] = ()
    ref_memory_id: str | None = None
    notes: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What an agent came to.

    Attributes:
        answer: Its last words; may be empty where it ended with calls.
        transcript: Everything that was said, system prompt included; every tool call is answered.
        usage: What its own model calls cost, those with unusable answers included; what tools cost is in the trace.
        stop_reason: `answer`: it had finished. `calls`: its last calls left nothing to ask. `limit`: it was made to
            answer at its last step.
        prompts: Name and version of each prompt used.
    """

    answer: str
    transcript: tuple[Message, ...] = ()
    usage: Usage = field(default_factory=Usage)
    stop_reason: str = "answer"
    prompts: tuple[str, ...] = ()


@runtime_checkable
class MemoryAgent(Protocol):
    """An agent that works on memories."""

    @property
    def name(self) -> str:
        """Who writes."""

    @property
    def memory_type(self) -> MemoryType | None:
        """The type of memory that it works on; None for one that works on several."""

    async def run(self, task: AgentTask, context: ToolContext) -> AgentResult:
        """Do a task within a context.

        Raises:
            RunError: It used up its steps, tokens or seconds.
            ModelError: The model failed, or answered twice what can't be used.
            StoreError: Reading or writing failed.
        """
