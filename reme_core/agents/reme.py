"""The agents of a whole scope: one decides what is to be remembered, one answers questions, one talks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from reme_core.agents.base import DEFAULT_OPTIONS, AgentOptions, BaseMemoryAgentOp
from reme_core.agents.calls import tool_calls, tool_results
from reme_core.agents.loop import Limits, OnText, StopRule
from reme_core.agents.targets import (
    IdentitySummaryAgentV1Op,
    PersonalSummaryAgentV1Op,
    ProceduralSummaryAgentV1Op,
    ToolSummaryAgentV1Op,
    fenced_messages,
    fenced_text,
    keep_messages,
    quoted,
    said_between,
    target_agents,
    wish,
)
from reme_core.errors import RunError
from reme_core.ports import AgentResult, AgentTask, MemoryAgent, RunTrace, Tool, ToolContext
from reme_core.schema import ContentBlock, ImageBlock, MemoryType, Message, TextBlock, trust_mark
from reme_core.steps.targets import label
from reme_core.text import conversation_lines, fence, prompt_time
from reme_core.tools import (
    AddMetaMemoryOp,
    AddSummaryMemoryOp,
    HandsOffOp,
    ReadHistoryMemoryOp,
    ReadMetaMemoryOp,
    VectorRetrieveMemoryOp,
)
from reme_core.tools.meta import read_identity
from reme_core.tools.prompt_blocks import block_tools

_HANDS_OFF = "hands_off"
_TALKING = frozenset({"user", "assistant"})
_NOTHING = (
    "nothing was handed on, so nothing would be remembered: call hands_off with every target that the messages say "
    "something lasting about (add_meta_memory first makes those that are new), or without a target and with the reason "
    "why nothing is worth keeping"
)


class ReMeSummaryAgentV1Op(BaseMemoryAgentOp):
    """Decides whom and what messages are about, keeps a summary of them, and hands the rest to agents of one target."""

    name = "reme_summary_agent"
    description = "Turns messages into memories of every type."
    prompt = "reme_summary"
    task_prompt = "summary_task"
    # One step where all is called in one answer; a model that calls one tool at a time takes three, and is told twice.
    own_limits = Limits(max_steps=6)
    last_tools = frozenset({_HANDS_OFF})
    needed_tools = frozenset({_HANDS_OFF, "add_summary_memory"})
    final_tools = needed_tools | {"add_meta_memory"}

    def __init__(
        self,
        options: AgentOptions = DEFAULT_OPTIONS,
        *,
        enable_tool_memory: bool = True,
        enable_identity_memory: bool = True,
        agents: Sequence[MemoryAgent] | None = None,
    ) -> None:
        """Keep the options.

        Args:
            options: See `AgentOptions`.
            enable_tool_memory: Hand on memories about tools as well.
            enable_identity_memory: Hand on what the assistant itself is as well.
            agents: Those that work is handed to; None for one of each type, with the options for its language and
                the form of its tools.
        """
        self.enable_tool_memory = enable_tool_memory
        self.enable_identity_memory = enable_identity_memory
        own = target_agents(options, tool=enable_tool_memory, identity=enable_identity_memory)
        self.agents = tuple(own if agents is None else agents)
        super().__init__(options)

    def build_tools(self) -> Sequence[Tool]:
        """Build adding targets, adding a summary, and handing on."""
        multiple, thinking = self.options.enable_multiple, self.options.enable_thinking_params
        return [
            AddMetaMemoryOp(enable_multiple=multiple, enable_thinking_params=thinking),
            AddSummaryMemoryOp(add_metadata=False, enable_multiple=multiple, enable_thinking_params=thinking),
            HandsOffOp(agents=self.agents, enable_multiple=multiple, enable_thinking_params=thinking),
        ]

    async def begin(self, task: AgentTask, context: ToolContext) -> ToolContext:
        """Store the messages first, where they lie in no block yet; see `BaseMemoryAgentOp.begin`."""
        context = await super().begin(task, context)
        if not task.messages or any(source.block_id is not None for source in context.sources):
            return context
        return replace(context, sources=await keep_messages(task.messages, context))

    def ending(self, context: ToolContext) -> StopRule:
        """Return when a run ends: not before something is handed on, or a reason is given why nothing is."""
        if all(tool.name != _HANDS_OFF for tool in self.tools):
            return super().ending(context)
        before = _settled(context.trace)
        return replace(super().ending(context), missing=lambda: _NOTHING if _settled(context.trace) == before else None)

    async def run(self, task: AgentTask, context: ToolContext, *, on_text: OnText | None = None) -> AgentResult:
        """Route messages; see `BaseMemoryAgentOp.run`. Targets that it leaves unknown have failed, as the trace says.

        Raises:
            ModelOutputError: Also where it handed on nothing and gave no reason, and was told so.
        """
        result = await super().run(task, context, on_text=on_text)
        trace = context.trace
        for target in trace.unknown if _was_refused(result.transcript) else ():
            msg = (
                f"{self.name} named {label(target)}, which is none of the targets, and neither added it nor left it "
                "out when told so"
            )
            trace.failures.append((target, RunError(msg)))
        trace.unknown.clear()
        return result

    async def prepare(self, task: AgentTask, context: ToolContext) -> Mapping[str, str]:
        """Read the identity and the targets that there are."""
        return {
            "identity": await _identity(context, enabled=self.enable_identity_memory),
            "targets": await _targets(context, tool=self.enable_tool_memory, identity=self.enable_identity_memory),
            "query": wish(task.query),
            "conversation": fenced_messages(task.messages, context.zone),
            "said": said_between(task.messages, context),
        }


class ReMeRetrieveAgentV1Op(BaseMemoryAgentOp):
    """Answers a question from memories, and from what was said where they are not exact enough."""

    name = "reme_retrieve_agent"
    description = "Answers a question from memories."
    prompt = "reme_retrieve"
    task_prompt = "retrieve_task"
    # Two rounds of searching and reading, and the answer: a question that they don't answer is not answered by more.
    own_limits = Limits(max_steps=3)
    last_step = "answer"

    def __init__(self, options: AgentOptions = DEFAULT_OPTIONS, *, enable_tool_memory: bool = True) -> None:
        """Keep the options.

        Args:
            options: See `AgentOptions`.
            enable_tool_memory: Show the targets of memories about tools as well.
        """
        self.enable_tool_memory = enable_tool_memory
        super().__init__(options)

    def build_tools(self) -> Sequence[Tool]:
        """Build searching memories and reading blocks."""
        multiple, thinking = self.options.enable_multiple, self.options.enable_thinking_params
        searching = VectorRetrieveMemoryOp(
            enable_summary_memory=True,
            add_memory_type_target=True,
            enable_multiple=multiple,
            enable_thinking_params=thinking,
        )
        return [searching, ReadHistoryMemoryOp(enable_multiple=multiple, enable_thinking_params=thinking)]

    async def prepare(self, task: AgentTask, context: ToolContext) -> Mapping[str, str]:
        """Read the targets that there are."""
        return {
            "now": prompt_time(context.clock.now(), context.zone),
            "targets": await _targets(context, tool=self.enable_tool_memory, identity=False),
            "query": quoted("query", task.query),
            "conversation": fenced_messages(task.messages, context.zone),
        }


class PersonalRetrieveAgentV2Op(ReMeRetrieveAgentV1Op):
    """Answers a question from the memories about persons alone, or about the person that the task names."""

    name = "personal_retrieve_agent"
    description = "Answers a question from memories about a person."

    async def begin(self, task: AgentTask, context: ToolContext) -> ToolContext:
        """Return the context of its tools; they reach no other type, and no other person than one that is named."""
        context = await super().begin(task, context)
        return replace(
            context, memory_type=MemoryType.PERSONAL, memory_target=task.memory_target or context.memory_target
        )


class ReMyAgentV1Op(ReMeRetrieveAgentV1Op):
    """The chat agent, with the tools of the one that retrieves.

    `task.messages` is the conversation so far, `task.query` what the person says now.
    """

    name = "remy"
    description = "Talks with a person, and remembers."
    prompt = "remy"
    task_prompt = "remy_task"
    # Searching, reading, and once more each, before it has to answer.
    own_limits = Limits(max_steps=5)

    def __init__(
        self,
        options: AgentOptions = DEFAULT_OPTIONS,
        *,
        enable_tool_memory: bool = True,
        enable_identity_memory: bool = True,
        enable_memory_blocks: bool = False,
    ) -> None:
        """Keep the options.

        Args:
            options: See `AgentOptions`.
            enable_tool_memory: Show the targets of memories about tools as well.
            enable_identity_memory: Show what the assistant itself is.
            enable_memory_blocks: Have the tools that edit memory blocks.
        """
        self.enable_identity_memory = enable_identity_memory
        self.enable_memory_blocks = enable_memory_blocks
        super().__init__(options, enable_tool_memory=enable_tool_memory)

    def build_tools(self) -> Sequence[Tool]:
        """Build searching memories and reading blocks, and editing memory blocks."""
        return [*super().build_tools(), *(block_tools() if self.enable_memory_blocks else ())]

    async def prepare(self, task: AgentTask, context: ToolContext) -> Mapping[str, str]:
        """Read the identity and the targets that there are, and hand on what was found."""
        return {
            "now": prompt_time(context.clock.now(), context.zone),
            "notes": task.notes or fenced_text("notes", "nothing was found"),
            "identity": await _identity(context, enabled=self.enable_identity_memory),
            "targets": await _targets(context, tool=self.enable_tool_memory, identity=self.enable_identity_memory),
        }

    def conversation(self, task: AgentTask, told: str) -> list[Message]:
        """Return the conversation so far, then the notes together with what the person says now."""
        notes = TextBlock(text=told)
        before = list(task.messages)
        newest: tuple[ContentBlock, ...] = ()
        if task.query.strip():
            newest = (TextBlock(text=task.query),)
        elif before and before[-1].role == "user":
            newest = _own_words(before.pop())
        return [
            *(part for message in before for part in _retold(message)),
            Message(role="user", content=(notes, *newest)),
        ]


def first_version(name: str) -> type[BaseMemoryAgentOp]:
    """Return the agent that a class of this name is a further version of; that of one person, where no name is like it.

    An agent that retrieves (`ProceduralRetrieveAgentV2Op`) is a version of the one that retrieves.
    """
    kinds: tuple[type[BaseMemoryAgentOp], ...] = (
        ProceduralSummaryAgentV1Op,
        ToolSummaryAgentV1Op,
        IdentitySummaryAgentV1Op,
        ReMeSummaryAgentV1Op,
        ReMyAgentV1Op,
    )
    same = [kind for kind in kinds if name.startswith(kind.__name__.removesuffix("V1Op"))]
    retrieves = ReMeRetrieveAgentV1Op if "Retrieve" in name else PersonalSummaryAgentV1Op
    return same[0] if same else retrieves


def _settled(trace: RunTrace) -> int:
    """Count the decisions about targets: those handed on, and that there are none."""
    return len(trace.done) + len(trace.failures) + len(trace.nothing)


def _was_refused(transcript: Sequence[Message]) -> bool:
    """Tell whether something was refused when targets were handed on for the last time."""
    for place in reversed(range(len(transcript))):
        handed = {call.call_id for call in tool_calls(transcript[place]) if call.name == _HANDS_OFF}
        if handed:
            after = [block for message in transcript[place:] for block in tool_results(message)]
            return any(block.is_error and block.call_id in handed for block in after)
    return False


def _own_words(message: Message) -> tuple[ContentBlock, ...]:
    return tuple(block for block in message.content if isinstance(block, (TextBlock, ImageBlock)))


def _retold(message: Message) -> list[Message]:
    """Return a turn of the conversation as a model may see it again.

    What persons and assistants said stays their turn, unless it is marked as words of others. Instructions, tool calls
    and results come from elsewhere, and the tools of this run know nothing of them: they are shown as records, which
    have no authority and need no answer.
    """
    own = _own_words(message)
    if message.model_copy(update={"content": own}).trust not in _TALKING or message.role not in _TALKING:
        own = ()
    if len(own) == len(message.content):
        return [message]
    said = [message.model_copy(update={"content": own})] if any(_says(block) for block in own) else []
    rest = tuple(block for block in message.content if block not in own and block.type != "other")
    if not rest:
        return said
    record = message.model_copy(update={"content": rest})
    return [*said, Message(role="user", content=(TextBlock(text=fence("record", conversation_lines([record]))),))]


def _says(block: ContentBlock) -> bool:
    return isinstance(block, ImageBlock) or (isinstance(block, TextBlock) and bool(block.text.strip()))


async def _identity(context: ToolContext, *, enabled: bool) -> str:
    memories = await read_identity(context) if enabled else []
    text = "\n".join(f"{trust_mark(memory.trust)}{memory.content}" for memory in memories)
    return fenced_text("identity", text or ("there is no identity memory yet" if enabled else ""))


async def _targets(context: ToolContext, *, tool: bool, identity: bool) -> str:
    table = ReadMetaMemoryOp(enable_tool_memory=tool, enable_identity_memory=identity)
    return fenced_text("targets", await table({}, context))
