"""Messages in the middleware: its own, which are not captured or streamed, and those converted, each once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final, Literal, TypeAlias, TypeVar

from langchain_core.messages import AnyMessage, BaseMessage, HumanMessage
from langgraph.stream import ProtocolEvent, StreamTransformer

from reme_core import Message
from reme_langchain.messages import from_langchain

SOURCE: Final = "reme"
Part: TypeAlias = Literal["recall", "summary"]
M = TypeVar("M", bound=BaseMessage)

_CUT: Final = "reme_cut"
_TOLD: Final = "told"

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


def as_cut(message: M, of: Message) -> M:
    """Return what is sent in place of a message of ours, with the note that this was captured as it was said."""
    note = _TOLD if of.role == "tool" and isinstance(message, HumanMessage) else True
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, _CUT: note}})


def is_cut(message: BaseMessage) -> bool:
    """Tell whether a message is what is left of one that was captured whole."""
    return message.additional_kwargs.get(_CUT) is True or is_told(message)


def is_told(message: BaseMessage) -> bool:
    """Tell whether a message tells in words what a tool returned: no user has said it."""
    return message.additional_kwargs.get(_CUT) == _TOLD


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


_REMEMBERED = 8_192


class ConvertedMessages:
    """Remembers our form of the messages read last, so that each is converted once. Threads may share one.

    A message that was loaded from a checkpoint again is another object and an equal one: to compare them takes some
    two percent of the time of a conversion.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._known: OrderedDict[str, tuple[BaseMessage, Message]] = OrderedDict()
        self._gate = threading.Lock()

    def read(self, message: BaseMessage, *, now: datetime) -> Message:
        """Return our form of a message, the same object for the same message."""
        if message.id is None:
            return _converted(message, now)
        with self._gate:
            found = self._known.get(message.id)
        if found is not None and (found[0] is message or found[0] == message):
            return found[1]
        form = _converted(message, now)
        self.remember(message, form)
        return form

    def remember(self, message: BaseMessage, form: Message) -> None:
        """Have a message in this form from now on."""
        if message.id is None:
            return
        with self._gate:
            self._known[message.id] = (message, form)
            self._known.move_to_end(message.id)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)


def _converted(message: BaseMessage, now: datetime) -> Message:
    # The memory knows a message again that was cut, and by nothing else that changed.
    [form] = from_langchain([without_note(message)])
    form = form.model_copy(update={"created_at": now, "role": "tool" if is_told(message) else form.role})
    form.model_fields_set.discard("created_at")  # nobody said when: said again at another time it is the same
    return form
