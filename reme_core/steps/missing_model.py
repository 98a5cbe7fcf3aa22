"""Message for calls that need a chat model where there is none."""

from __future__ import annotations


def missing_model_message(wanted_for: str) -> str:
    """Say what to set where a chat model is needed and there is none."""
    return (
        f"{wanted_for} needs a chat model: set REME_LLM_MODEL and REME_LLM_API_KEY (or OPENAI_API_KEY), with "
        "REME_LLM_BASE_URL for another endpoint than OpenAI's, or give llm="
    )
