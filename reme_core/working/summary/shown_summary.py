"""The summary of a context as a message: what a model is shown, and nobody has said."""

from __future__ import annotations

from datetime import UTC, datetime

from reme_core.schema import Message, TextBlock

SUMMARY_MARK = "summary"
"""Under `reme` in the metadata of the message that shows a summary."""

_HEAD = "Summary of the conversation so far:"
# A summary has no time of its own, and one that changed would change the prompt.
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_ID = "summary-"


def summary_message(session_id: str, summary: str) -> Message:
    """Return the message that shows a summary: always the same one for the same summary."""
    return Message(
        message_id=f"{_ID}{session_id}"[:512],
        role="user",
        content=(TextBlock(text=f"{_HEAD}\n\n{summary}"),),
        created_at=_NO_TIME,
        metadata={"reme": SUMMARY_MARK},
    )


def shown_text(message: Message) -> str | None:
    """Return the summary that a message shows; None if it shows none."""
    return message.text.removeprefix(_HEAD).lstrip("\n") if is_shown_summary(message) else None


def is_shown_summary(message: Message) -> bool:
    """Tell whether a message is a summary as `summary_message` shows it, this one or an earlier one."""
    return (
        message.message_id.startswith(_ID)
        and message.metadata == {"reme": SUMMARY_MARK}
        and message.created_at == _NO_TIME
        and message.text.startswith(_HEAD)
    )
