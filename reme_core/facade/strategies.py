"""The strategies that users choose from, as settings; a memory binds them to its ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from reme_core.errors import ConfigurationError
from reme_core.ports import (
    ChatModel,
    Clock,
    Embedder,
    MemoryAgent,
    Retriever,
    Store,
    TokenCounter,
    Tool,
)
from reme_core.schema import shown
from reme_core.schema.checks import kind_of
from reme_core.steps.distillation import Guidance, read_guidance
from reme_core.steps.user_input import missing_model_message
from reme_core.text import Language

if TYPE_CHECKING:
    from reme_core.agents import AgentOptions, Limits
    from reme_core.recall.simple_retriever import SimpleRetriever
    from reme_core.remember.summarizer import SummaryWorker
    from reme_core.steps.distillation import Distiller
    from reme_core.steps.records import MemorySchema


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimePorts:
    """What the strategies of a memory work on."""

    store: Store
    embedder: Embedder | None
    model: ChatModel | None
    clock: Clock
    counter: TokenCounter
    zone: tzinfo = UTC
    web_tools: frozenset[str] = frozenset()
    schemas: Sequence[MemorySchema] = ()

    def simple_retriever(self) -> SimpleRetriever:
        """Return the retriever that asks no chat model."""
        from reme_core.recall.simple_retriever import SimpleRetriever

        return SimpleRetriever(
            store=self.store,
            embedder=self.embedder,
            counter=self.counter,
            web_tools=self.web_tools,
        )

    def model_for(self, own: ChatModel | None, wanted_for: str) -> ChatModel:
        """Return the strategy's own model, or the memory's (ConfigurationError: there is neither)."""
        model = own or self.model
        if model is None:
            raise ConfigurationError(missing_model_message(wanted_for))
        return model


@runtime_checkable
class BindsDistiller(Protocol):
    """Settings of a distiller."""

    def bind_distiller(self, ports: RuntimePorts) -> Distiller:
        """Return the distiller over these ports (ConfigurationError: no chat model)."""
        ...


@runtime_checkable
class GuidesDistiller(Protocol):
    """Settings of a distiller that follows what the application wants; see `DistilTask.guidance`."""

    @property
    def guidance(self) -> Guidance:
        """What the application wants of all memories."""
        ...


@runtime_checkable
class BindsRetriever(Protocol):
    """Settings of a retriever."""

    def bind_retriever(self, ports: RuntimePorts) -> Retriever:
        """Return the retriever over these ports (ConfigurationError: no chat model)."""
        ...


def summary_worker(settings: BindsDistiller, ports: RuntimePorts, store: Store) -> SummaryWorker:
    """Return what does the jobs of summaries over a store (ConfigurationError: no chat model)."""
    from reme_core.remember.summarizer import SummaryWorker

    distiller = settings.bind_distiller(replace(ports, store=store))
    return SummaryWorker(store=store, distiller=distiller, is_guided=isinstance(settings, GuidesDistiller))


@dataclass(frozen=True, slots=True, kw_only=True)
class _GuidedSettings:
    """What an application wants of the memories that a distiller makes; see `SimpleSummarizer`."""

    instructions: str = ""
    types: Sequence[str] | None = None
    examples: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check what the application wants (InvalidInputError: naming what is wrong or too long)."""
        read_guidance(self.instructions, self.types, self.examples)

    @property
    def guidance(self) -> Guidance:
        """What the application wants."""
        return read_guidance(self.instructions, self.types, self.examples)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleSummarizer(_GuidedSettings):
    """Settings of the simple distiller: one model call extracts facts, one more reconciles those that have neighbours.

    Attributes:
        model: A model of its own; None: the memory's.
        language: Of the prompts; None follows the conversation.
        use_reviser: Have a further call check what came out, and do it again once if something is wrong.
        instructions: What to keep and what never to keep, in words (at most 4,000 characters). It goes before our own
            rules, is kept with each job, and so holds for a job that another process finishes. Messages are kept as
            they were said, whatever it says.
        types: The types of memory to make, of `personal`, `procedural`, `tool`, `identity`, `summary`; None: all.
        examples: What is to become of what, in words or JSON: at most 10 of 1,000 characters each.
    """

    model: ChatModel | None = None
    language: Language | None = None
    use_reviser: bool = False

    def bind_distiller(self, ports: RuntimePorts) -> Distiller:
        """Return the distiller over these ports (ConfigurationError: no chat model)."""
        from reme_core.remember.simple_distiller import SimpleDistiller

        return SimpleDistiller(
            store=ports.store,
            embedder=ports.embedder,
            model=ports.model_for(self.model, "distilling memories"),
            clock=ports.clock,
            language=self.language,
            use_reviser=self.use_reviser,
            schemas=ports.schemas,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgenticSummarizer(_GuidedSettings):
    """Settings of the agentic distiller: an agent routes the blocks to sub-agents, one for each target.

    Attributes:
        tools: The tools of the routing agent; None: those that `ReMeSummaryAgentV1Op` has.
        system_prompt: Instructions in place of the routing agent's own.
        agents: Sub-agents, one for each memory type; they take the place of ours of the same type.
        model: A model of its own; None: the memory's.
        language: Of the prompts; None follows the conversation.
        limits: Of the routing agent.
        enable_tool_memory: Make memories about tools.
        enable_identity_memory: Keep what the assistant is.
        enable_multiple: Offer tools that take lists.
        enable_thinking_params: Require a text `thinking` in each call.
        enable_think_tool: Offer a tool to think with.
        use_reviser: Have a further call check what came out, and do it again once if something is wrong.
        instructions: As for `SimpleSummarizer`; every agent is told.
        types: As for `SimpleSummarizer`.
        examples: As for `SimpleSummarizer`.
    """

    tools: Sequence[Tool] | None = None
    system_prompt: str | None = None
    agents: Sequence[MemoryAgent] = ()
    model: ChatModel | None = None
    language: Language | None = None
    limits: Limits | None = None
    enable_tool_memory: bool = True
    enable_identity_memory: bool = True
    enable_multiple: bool = True
    enable_thinking_params: bool = False
    enable_think_tool: bool = False
    use_reviser: bool = False

    def bind_distiller(self, ports: RuntimePorts) -> Distiller:
        """Return the distiller over these ports (ConfigurationError: no chat model, or schemas to be filled)."""
        from reme_core.remember.agentic_distiller import AgenticDistiller

        if ports.schemas:
            msg = "schemas: agents fill no records: use SimpleSummarizer(), with AgenticRetriever() if you like"
            raise ConfigurationError(msg)
        own = {agent.memory_type for agent in self.agents}
        agents = (*self.agents, *(agent for agent in self._sub_agents() if agent.memory_type not in own))
        return AgenticDistiller(
            store=ports.store,
            embedder=ports.embedder,
            model=ports.model_for(self.model, "distilling memories"),
            clock=ports.clock,
            agents=agents,
            make_router=self._router,
            language=self.language,
            use_reviser=self.use_reviser,
        )

    def _sub_agents(self) -> list[MemoryAgent]:
        from reme_core.agents import target_agents

        return target_agents(self._options(), tool=self.enable_tool_memory, identity=self.enable_identity_memory)

    def _router(self, agents: Sequence[MemoryAgent]) -> MemoryAgent:
        from reme_core.agents import ReMeSummaryAgentV1Op

        return ReMeSummaryAgentV1Op(
            self._options(),
            agents=agents,
            enable_tool_memory=self.enable_tool_memory,
            enable_identity_memory=self.enable_identity_memory,
        )

    def _options(self) -> AgentOptions:
        from reme_core.agents import AgentOptions

        return AgentOptions(
            tools=self.tools,
            system_prompt=self.system_prompt,
            language=self.language,
            limits=self.limits,
            enable_multiple=self.enable_multiple,
            enable_thinking_params=self.enable_thinking_params,
            enable_think_tool=self.enable_think_tool,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgenticRetriever:
    """Settings of the agentic retriever: an agent reads the routing table, searches, reads on, and answers.

    Attributes:
        tools: The tools of the agent; None: those that `ReMeRetrieveAgentV1Op` has.
        system_prompt: Instructions in place of the agent's own.
        agent: An agent in place of `ReMeRetrieveAgentV1Op`; what else is set here is then not used.
        model: A model of its own; None: the memory's.
        language: Of the prompts; None follows the question.
        limits: Of the agent.
        enable_tool_memory: Look at memories about tools as well.
    """

    tools: Sequence[Tool] | None = None
    system_prompt: str | None = None
    agent: MemoryAgent | None = None
    model: ChatModel | None = None
    language: Language | None = None
    limits: Limits | None = None
    enable_tool_memory: bool = True

    def bind_retriever(self, ports: RuntimePorts) -> Retriever:
        """Return the retriever over these ports (ConfigurationError: no chat model)."""
        from reme_core.agents import AgentOptions, ReMeRetrieveAgentV1Op
        from reme_core.recall.agentic_retriever import AgenticRetrieval

        agent = self.agent or ReMeRetrieveAgentV1Op(
            AgentOptions(
                tools=self.tools, system_prompt=self.system_prompt, language=self.language, limits=self.limits
            ),
            enable_tool_memory=self.enable_tool_memory,
        )
        return AgenticRetrieval(
            agent=agent,
            model=ports.model_for(self.model, "agentic retrieval"),
            store=ports.store,
            embedder=ports.embedder,
            clock=ports.clock,
            counter=ports.counter,
            simple=ports.simple_retriever(),
            zone=ports.zone,
        )


# More lines than these are no list that a model puts in order well, or that 6,000 tokens have room for.
_MOST_RERANKED = 100


@dataclass(frozen=True, slots=True)
class RerankingRetriever:
    """Settings of the reranking retriever: one model call of at most 6,000 prompt tokens orders the first hits.

    Attributes:
        model: A model of its own; None: the memory's.
        first: How many hits of the simple search the model is shown, 1 to 100.
        timeout_s: How long the model's answer is waited for; then the order is that of the search.
        language: Of the prompt; None follows the question.
    """

    model: ChatModel | None = None
    _: KW_ONLY
    first: int = 50
    timeout_s: float = 30.0
    language: Language | None = None

    def __post_init__(self) -> None:
        """Check the settings (ConfigurationError): later a model that can't be asked would only cost the order."""
        _check_reranking(self.model, self.first, self.timeout_s)

    def bind_retriever(self, ports: RuntimePorts) -> Retriever:
        """Return the retriever over these ports (ConfigurationError: no chat model)."""
        from reme_core.recall.reranking_retriever import RerankedRetrieval

        return RerankedRetrieval(
            simple=ports.simple_retriever(),
            model=ports.model_for(self.model, "reranking"),
            counter=ports.counter,
            first=self.first,
            timeout_s=self.timeout_s,
            language=self.language,
        )


def _check_reranking(model: object, first: object, timeout_s: float) -> None:
    if isinstance(model, (str, Mapping)):
        msg = f"reranking: wanted a ChatModel such as OpenAIChat(...), found {kind_of(model)}"
        raise ConfigurationError(msg)
    if not (isinstance(first, int) and 1 <= first <= _MOST_RERANKED):
        msg = f"reranking: first must be a whole number from 1 to {_MOST_RERANKED}, found {shown(first)}"
        raise ConfigurationError(msg)
    if not timeout_s > 0:
        msg = f"reranking: timeout_s must be above zero, found {shown(timeout_s)}"
        raise ConfigurationError(msg)
