"""Filter of a user's stream: the middleware's own messages stay out of it."""

from __future__ import annotations

from typing import ClassVar

from langchain_core.messages import BaseMessage
from langgraph.stream import ProtocolEvent, StreamTransformer

from reme_langchain.middleware._own_messages import part_of


class OurMessagesTransformer(StreamTransformer):
    """Keeps messages that the middleware puts into a thread out of `run.messages`, where models speak."""

    before_builtins: ClassVar[bool] = True
    required_stream_modes: ClassVar[tuple[str, ...]] = ("messages",)

    def init(self) -> dict[str, object]:
        """Add nothing to the run."""
        return {}

    def process(self, event: ProtocolEvent) -> bool:
        """Drop an event that shows a message of ours."""
        if event["method"] != "messages":
            return True
        payload, about = event["params"]["data"]
        if not isinstance(payload, BaseMessage) or part_of(payload) is None:
            return True
        # What is dropped here is still shown to the transformers behind this one.
        event["params"]["data"] = (None, about)
        return False
