"""Messages that the middleware puts into a thread: nobody has said them, and they are never captured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, TypeVar

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage

SOURCE: Final = "reme"
Part: TypeAlias = Literal["recall", "summary"]
M = TypeVar("M", bound=BaseMessage)

_CUT: Final = "reme_cut"

_SUMMARY_HEAD = (
    "Summary of the conversation so far. What it leaves out is kept: reload_context(handle) loads it again by the "
    "references below.\n\n"
)


def our_message(text: str, part: Part, *, message_id: str | None = None, shown: Sequence[str] = ()) -> HumanMessage:
    """Return a message of ours; `shown` says which memories are in it."""
    about: dict[str, object] = {"part": part}
    if shown:
        about["shown"] = list(shown)
    return HumanMessage(content=text, id=message_id, additional_kwargs={"lc_source": SOURCE, SOURCE: about})


def part_of(message: BaseMessage) -> str | None:
    """Return which message of ours this is; None: somebody has said it."""
    if message.additional_kwargs.get("lc_source") != SOURCE:
        return None
    about = message.additional_kwargs.get(SOURCE)
    part = about.get("part") if isinstance(about, dict) else None
    return part if isinstance(part, str) else "recall"


def shown_in(message: BaseMessage) -> frozenset[str]:
    """Return which memories a message of ours shows."""
    about = message.additional_kwargs.get(SOURCE)
    shown = about.get("shown") if isinstance(about, dict) else None
    return frozenset(item for item in shown if isinstance(item, str)) if isinstance(shown, list) else frozenset()


def as_cut(message: M) -> M:
    """Return a message with the note that it was shortened after it had been captured."""
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, _CUT: True}})


def is_cut(message: BaseMessage) -> bool:
    """Tell whether a message is what is left of one that was captured whole."""
    return message.additional_kwargs.get(_CUT) is True


def without_note(message: M) -> M:
    """Return a message as it was before `as_cut`."""
    if not is_cut(message):
        return message
    kwargs = {key: value for key, value in message.additional_kwargs.items() if key != _CUT}
    return message.model_copy(update={"additional_kwargs": kwargs})


def said(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return the messages that are not ours."""
    return [message for message in messages if part_of(message) is None]


def summary_message(summary: str, *, message_id: str | None) -> HumanMessage:
    """Return the message that shows a summary."""
    return our_message(_SUMMARY_HEAD + summary, "summary", message_id=message_id)


def summary_text(message: BaseMessage) -> str:
    """Return the summary that a message shows."""
    return message.text.removeprefix(_SUMMARY_HEAD)
