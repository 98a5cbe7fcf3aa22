"""Settings of `ReMeMiddleware`."""

from __future__ import annotations

from typing import Annotated, Literal

from agentscope.embedding import EmbeddingModelBase
from agentscope.model import ChatModelBase
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema


class Parameters(BaseModel):
    """What a user may set; the agent service makes a form of the schema."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    chat_model: Annotated[ChatModelBase | None, SkipJsonSchema()] = Field(
        default=None,
        title="Chat Model",
        description="Makes memories of what is said. Without one, what was said is found by its words.",
    )
    embedding_model: Annotated[EmbeddingModelBase[str] | None, SkipJsonSchema()] = Field(
        default=None, title="Embedding Model", description="Finds by meaning what was said in other words."
    )
    mode: Literal["static_control", "agent_control", "both"] = Field(
        default="both",
        title="Retrieval Mode",
        description="static_control: memories are shown before each reply. agent_control: the agent searches with "
        "a tool. both: both. What is said is remembered in each mode.",
    )
    top_k: int = Field(default=5, ge=1, title="Top K", description="At most so many memories are shown at once.")
    search_timeout: float = Field(
        default=2.0, ge=0, title="Search Timeout", description="Seconds that a reply waits for its memories."
    )
    await_write: bool = Field(
        default=False,
        title="Await Write",
        description="Whether a reply ends only when memories are made of it, instead of in the background.",
    )
    user_name: str | None = Field(
        default=None, title="User Name", description="Whose memories these are; users never share any."
    )
    agent_name: str | None = Field(
        default=None, title="Agent Name", description="Given: this user's memories of this agent alone."
    )
    session_name: str | None = Field(
        default=None, title="Session Name", description="Given: this user's memories of this session alone."
    )
    memory_types: list[Literal["personal", "task", "tool"]] = Field(
        default=["personal"],
        min_length=1,
        title="Memory Types",
        description="personal: what was said. task: what replies have taught, each an attempt at a task. tool: "
        "what is known of tools from their calls.",
    )
    min_score: float | None = Field(
        default=None, ge=0, le=1, title="Least Score", description="Leaves out memories that score lower."
    )
    token_budget: int | None = Field(
        default=None,
        ge=1,
        title="Token Budget",
        description="At most so many tokens of them are shown at once.",
    )
    memory_blocks: bool | list[str] = Field(
        default=False,
        title="Memory Blocks",
        description="Shows the agent the user's memory blocks, as they are at each call of its model: all of them, or "
        "those with these labels. Unless the mode is static_control, it may edit them.",
    )
