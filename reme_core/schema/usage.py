"""Usage: the cost of a call."""

from __future__ import annotations

from reme_core.schema.mapping import MappingModel


class Usage(MappingModel):
    """Model calls, tokens as the endpoints reported them, and wall-clock milliseconds."""

    model_calls: int = 0
    embedding_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    milliseconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        """Add up two costs."""
        return Usage(
            model_calls=self.model_calls + other.model_calls,
            embedding_calls=self.embedding_calls + other.embedding_calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            milliseconds=self.milliseconds + other.milliseconds,
        )
