"""Use of a prompt's window, in the layout that clients of AgentScope know, and as a text for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentscope.message import Msg

from reme_agentscope.v1.working_memory._fitting import readable

_PREVIEW_CHARS = 100


def use_of(msgs: Sequence[Msg], counts: Sequence[int], summary: int, max_input_length: int | None) -> dict[str, Any]:
    """Return figures by name; `context_usage_ratio` is in percent of the window. `summary`: its tokens."""
    details = [
        {"role": msg.role, "name": msg.name, "total_tokens": tokens, "preview": readable(msg)[:_PREVIEW_CHARS]}
        for msg, tokens in zip(msgs, counts, strict=True)
    ]
    tokens = sum(counts) + summary
    return {
        "total_messages": len(details),
        "compressed_summary_tokens": summary,
        "messages_tokens": sum(counts),
        "estimated_tokens": tokens,
        "max_input_length": max_input_length or 0,
        "context_usage_ratio": tokens / max_input_length * 100 if max_input_length else 0.0,
        "messages_detail": details,
    }


def history_of(use: dict[str, Any]) -> str:
    """Return what `use_of` found as a text."""
    head = [
        "**Conversation History**\n",
        f"- Total messages: {use['total_messages']}",
        f"- Estimated tokens: {use['estimated_tokens']}",
        f"- Max input length: {use['max_input_length']}",
        f"- Context usage: {use['context_usage_ratio']:.1f}%",
        f"- Compressed summary tokens: {use['compressed_summary_tokens']}",
    ]
    lines = [
        f"[{number}] **{detail['role']}** (total_tokens={detail['total_tokens']})\n    preview: {detail['preview']}"
        for number, detail in enumerate(use["messages_detail"], 1)
    ]
    return "\n".join(head) + "\n\n" + "\n\n".join(lines)
