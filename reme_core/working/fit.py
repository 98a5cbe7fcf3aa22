"""Last step of compaction, which always ends: texts of what has to stay are cut until it fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType

from reme_core.errors import ContextTooLongError
from reme_core.schema import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    OffloadKind,
    OffloadRecord,
    OtherBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    is_embedded,
    new_reference,
)
from reme_core.text import cut_middle
from reme_core.working.messages_to_keep import last_user_message, waiting_calls
from reme_core.working.tokens import FILE_TOKENS, IMAGE_TOKENS, TokenLedger, arguments_text, json_text, without_base64
from reme_core.working.tool_results import is_of

# What an image or file counts is weighed against texts as though it were ASCII, with four characters a token.
_BYTES_A_TOKEN = 4
# A caption or file name stands beside the notice that takes the place of the image, up to this many bytes.
_CAPTION_BYTES = 256
# Where the search for the length begins.
_FIRST_LENGTH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedContext:
    """Messages that fit.

    Attributes:
        messages: The messages handed in, each itself or a view of it, with its id, role and place.
        offloads: What the views refer to and is not kept yet.
        recorded: The ids of messages that views refer to, in order: they have to be in the transcript, whole, before
            the views are used.
    """

    messages: tuple[Message, ...]
    offloads: tuple[OffloadRecord, ...] = ()
    recorded: tuple[str, ...] = ()


def fit_messages(
    messages: Sequence[Message],
    *,
    allowance: int,
    ledger: TokenLedger,
    session_id: str,
    known: Mapping[tuple[str, int], OffloadRecord],
    now: datetime,
    pointers: Mapping[str, str] = MappingProxyType({}),
) -> FittedContext:
    """Cut the longest texts of messages, all to one length, until the messages fit.

    Texts, results and arguments longer than that length lose their middle, images and files that count more become a
    line of text, and so does a message of nothing but thinking or vendors' data; beside other parts, such a part is
    left out. What is cut says how it is loaded again. The last user message is cut only if cutting all else to
    nothing was not enough; before that system messages and the arguments of calls that wait for their result.

    Nothing but the references depends on chance. What is returned was counted with the ledger, so that it fits
    whatever the counter makes of shorter texts.

    Args:
        messages: In order; not changed.
        allowance: Tokens that they may take together.
        ledger: Counts.
        session_id: Whose context it is.
        known: Tool results that are kept already, by message id and place: a result that is one of these, or was cut
            from it, is cut from the whole, under the reference it has.
        now: The time written into the offloads.
        pointers: References that there are already for whole messages, by message id.

    Raises:
        ContextTooLongError: Names, calls and notices alone are more than the allowance.
    """
    needed = ledger.count_messages(messages)
    if needed <= allowance:
        return FittedContext(messages=tuple(messages))
    work = _FitState(
        messages=messages, known=known, session_id=session_id, now=now, ledger=ledger, tokens=needed, given=pointers
    )
    for places in _turns(messages):
        work.cut(places, allowance)
        if work.tokens <= allowance:
            return work.fitted()
    msg = (
        f"{len(messages)} messages that have to stay take at least {work.tokens} tokens, however they are cut, and "
        f"{max(allowance, 0)} are left for them: raise max_input_length, or shorten system prompt and tool schemas"
    )
    raise ContextTooLongError(msg)


def _turns(messages: Sequence[Message]) -> tuple[list[int], list[int], list[int]]:
    """Return the places in three groups, in the order in which they are cut."""
    user, waiting = last_user_message(messages), waiting_calls(messages)
    groups: tuple[list[int], list[int], list[int]] = ([], [], [])
    for place, message in enumerate(messages):
        late = message.role == "system" or place in waiting
        groups[2 if place == user else 1 if late else 0].append(place)
    return groups


@dataclass(slots=True, kw_only=True)
class _FitState:
    """One call of `fit_messages`: the views so far, and what they count."""

    messages: Sequence[Message]
    known: Mapping[tuple[str, int], OffloadRecord]
    session_id: str
    now: datetime
    ledger: TokenLedger
    tokens: int
    given: Mapping[str, str]
    views: dict[int, Message] = field(default_factory=dict)
    wholes: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    pointers: dict[int, str] = field(default_factory=dict)

    def cut(self, places: Sequence[int], allowance: int) -> None:
        """Cut messages as little as is needed; to nothing, if even that is not enough."""
        sizes = {place: max(map(_size, self.messages[place].content)) for place in places}

        def at(length: int) -> tuple[dict[int, Message], int]:
            views, tokens = dict[int, Message](), self.tokens
            for place, size in sizes.items():
                if size <= length:
                    continue
                view = self._view(place, length)
                gain = self.ledger.count_message(self.messages[place]) - self.ledger.count_message(view)
                if gain > 0:
                    views[place] = view
                    tokens -= gain
            return views, tokens

        views, self.tokens = _longest(at, max(sizes.values(), default=0), allowance)
        self.views |= views

    def fitted(self) -> FittedContext:
        """Return the views among the messages, and what has to be kept for them."""
        offloads, recorded = list[OffloadRecord](), list[str]()
        for place, view in sorted(self.views.items()):
            message = self.messages[place]
            results, is_cut_elsewhere = _changes(message, view)
            offloads += [self._result_offload(place, index) for index in results if self._is_new(place, index)]
            if is_cut_elsewhere and message.message_id not in self.given:
                offloads.append(self._pointer_offload(place))
                recorded.append(message.message_id)
        messages = tuple(self.views.get(place, message) for place, message in enumerate(self.messages))
        return FittedContext(messages=messages, offloads=tuple(offloads), recorded=tuple(dict.fromkeys(recorded)))

    def _view(self, place: int, length: int) -> Message:
        message = self.messages[place]
        content = [
            view
            for index, block in enumerate(message.content)
            if (view := self._cut_block(block, place, index, length)) is not None
        ]
        if not any(block.type != "text" or block.text.strip() for block in content):
            # Blank text beside what was left out: a message has to say something.
            content[:1] = [TextBlock(text=f"[… reload {self._pointer(place)}]")]
        return message.model_copy(update={"content": tuple(content)})

    def _cut_block(self, block: ContentBlock, place: int, index: int, length: int) -> ContentBlock | None:
        """Return a block that is no longer than a length, as near as can be; None where it is left out."""
        size = _size(block)
        if size <= length:
            return block
        view = self._shorter(block, place, index, length)
        # A notice may be longer than what it stands for.
        return block if view is not None and _size(view) >= size else view

    def _shorter(self, block: ContentBlock, place: int, index: int, length: int) -> ContentBlock | None:
        match block:
            case TextBlock():
                return TextBlock(text=cut_middle(block.text, length, reference=self._pointer(place)))
            case ToolResultBlock():
                text, reference = self._whole(place, index, block)
                return block.model_copy(update={"output": cut_middle(text, length, reference=reference)})
            case ToolCallBlock():
                hint = f"reload {self._pointer(place)}"
                head = _head(arguments_text(block), length - len(hint))
                return block.model_copy(update={"arguments": {"shortened": head, "whole": hint}})
            case ImageBlock():
                return self._line("image", block.caption, place, length)
            case FileBlock():
                return self._line("file", block.name, place, length)
            case OtherBlock():
                return None

    def _line(self, what: str, caption: str | None, place: int, length: int) -> TextBlock:
        shown = f" {caption};" if caption and _bytes(caption) <= min(length, _CAPTION_BYTES) else ""
        return TextBlock(text=f"[{what} left out:{shown} reload {self._pointer(place)}]")

    def _pointer(self, place: int) -> str:
        given = self.given.get(self.messages[place].message_id)
        return given or self.pointers.setdefault(place, new_reference())

    def _whole(self, place: int, index: int, block: ToolResultBlock) -> tuple[str, str]:
        """Return the whole output of which a block is a view, or which it is, and its reference."""
        found = self.wholes.get((place, index))
        if found is None:
            row = self.known.get((self.messages[place].message_id, index))
            if row is not None and is_of(row, block.output):
                found = row.text, row.reference
            else:
                found = block.output, new_reference()
            self.wholes[place, index] = found
        return found

    def _is_new(self, place: int, index: int) -> bool:
        row = self.known.get((self.messages[place].message_id, index))
        return row is None or row.reference != self.wholes[place, index][1]

    def _result_offload(self, place: int, index: int) -> OffloadRecord:
        message = self.messages[place]
        block = message.content[index]
        text, reference = self.wholes[place, index]
        return OffloadRecord(
            reference=reference,
            session_id=self.session_id,
            kind=OffloadKind.TOOL_RESULT,
            text=text,
            name=block.name if isinstance(block, ToolResultBlock) else None,
            message_id=message.message_id,
            place=index,
            created_at=self.now,
            said_at=message.created_at,
        )

    def _pointer_offload(self, place: int) -> OffloadRecord:
        return OffloadRecord(
            reference=self._pointer(place),
            session_id=self.session_id,
            kind=OffloadKind.MESSAGES,
            message_ids=(self.messages[place].message_id,),
            created_at=self.now,
        )


def _longest(
    at: Callable[[int], tuple[dict[int, Message], int]], longest: int, allowance: int
) -> tuple[dict[int, Message], int]:
    """Return the views of the greatest length that fits; those of length 0 if none does.

    The length is doubled first, and then closed in on, so that no view is counted that is much longer than what fits.
    """
    fits = at(0)
    low, high = 0, _FIRST_LENGTH
    if fits[1] > allowance:
        return fits
    while high < longest and (views := at(high))[1] <= allowance:
        fits, low, high = views, high, high * 2
    high = min(high, longest)
    while high - low > 1:
        middle = (low + high) // 2
        if (views := at(middle))[1] <= allowance:
            fits, low = views, middle
        else:
            high = middle
    return fits


def _changes(message: Message, view: Message) -> tuple[list[int], bool]:
    """Return which results of a message are cut in a view, and whether anything else is.

    Parts that were not cut are the same objects in both.
    """
    same = set(map(id, view.content))
    changed = [index for index, block in enumerate(message.content) if id(block) not in same]
    results = [index for index in changed if message.content[index].type == "tool_result"]
    return results, len(results) < len(changed)


def _size(block: ContentBlock) -> int:
    """Return what a block weighs, in bytes of text."""
    match block:
        case TextBlock():
            return _bytes(block.text)
        case ToolResultBlock():
            return _bytes(block.output)
        case ToolCallBlock():
            return _bytes(arguments_text(block))
        case ImageBlock():
            return IMAGE_TOKENS * _BYTES_A_TOKEN + _bytes(block.caption or "")
        case FileBlock():
            carried = is_embedded(block.url)
            return (FILE_TOKENS * _BYTES_A_TOKEN if carried else _bytes(block.url)) + _bytes(block.said)
        case OtherBlock():
            rest, embedded = without_base64(block.data)
            return FILE_TOKENS * _BYTES_A_TOKEN * embedded + _bytes(block.kind) + _bytes(json_text(rest))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _head(text: str, size: int) -> str:
    """Return the beginning of a text, at most `size` bytes."""
    return text.encode()[: max(0, size)].decode(errors="ignore")
