"""Context of one run of a flow, for the stages of procedural and tool memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reme_core.errors import ConfigurationError
from reme_core.ports import ChatModel, Clock, Embedder, Matrix, Store, Vector
from reme_core.schema import RejectedExperience, Scope, Usage
from reme_core.steps.embedding import try_embedding
from reme_core.steps.missing_model import missing_model_message
from reme_core.text import Language


@dataclass(slots=True)
class FlowTrace:
    """What happens in one run beside its values, written down as it goes on.

    Attributes:
        rejected: Experiences that a stage left out, and why.
        usage: What embeddings have cost; model calls are counted by the model of the context.
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
        model: The chat model, its calls counted; None where the run needs none.
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

    def chat_model(self, wanted_for: str) -> ChatModel:
        """Return the model (ConfigurationError: there is none)."""
        if self.model is None:
            msg = f"{missing_model_message(wanted_for)}, or a flow without this stage"
            raise ConfigurationError(msg)
        return self.model
