"""Tokens of messages: counted once each, and remembered for as long as the message lives."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Iterable

from pydantic import JsonValue

from reme_core.errors import InvalidInputError
from reme_core.ports import TokenCounter
from reme_core.schema import (
    ContentBlock,
    FileBlock,
    ImageBlock,
    Message,
    OtherBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    is_embedded,
)
from reme_core.schema.blobs import Blob, take_base64

# Around a message: three tokens, one of which is counted for the role beside them, and one more where there is a name.
# Source: OpenAI cookbook, "How to count tokens with tiktoken", `num_tokens_from_messages`.
_MESSAGE_TOKENS, _NAME_TOKENS = 4, 1
# Between two parts of one message: a line break, or the marks of a part.
_PART_TOKENS = 1
# Around a call: recipient, channel, kind and marks, and around a result: its author and marks. Source: OpenAI cookbook,
# "OpenAI harmony response format", sections on tool calls; their tokens counted one by one.
_CALL_TOKENS, _RESULT_TOKENS = 12, 8

IMAGE_TOKENS = 1_536
"""An image, whatever its size, which a reference doesn't tell: the most of OpenAI's 32-pixel patches (1,536).

It is above the most of its older rule, too: 85, and 170 for each of at most eight tiles of 512 pixels (1,445).
Source: OpenAI, "Images and vision", calculating costs.
"""

FILE_TOKENS = 3_000
"""A file that a message carries in it, whatever its size: a page of text that is shown as an image as well.

Source: Anthropic, "PDF support", 1,500 to 3,000 tokens a page.
"""

# So many contexts are told apart where several sessions take turns.
_SEQUENCES = 4
_TEXTS = 16
# Not worth remembering: counting it is as quick.
_SHORT_TEXT = 64


class _CountedMessage(weakref.ref[Message]):
    """A message that was counted, which this doesn't keep alive."""

    __slots__ = ("key", "tokens")

    key: int
    tokens: int


class TokenLedger:
    """Counts tokens of messages, each message once. Threads may share one.

    What is remembered belongs to the object, not to its id, so that a view of a message, which has the same id, is
    counted for itself. Messages are not kept alive by it, but for those of the last four sequences counted.

    A count is the texts' own, as the counter counts them (captions, call names and arguments, outputs, vendors' data
    as JSON), and fixed numbers for each message, call, result, image and embedded file.
    """

    def __init__(self, counter: TokenCounter, *, beside: Callable[[Message], int] = lambda _: 0) -> None:
        """Count with `counter`.

        `beside` says what a message takes besides what can be read of it: images in the result of a tool, say.
        """
        self._counter = counter
        self._beside = beside
        self._counted: dict[int, _CountedMessage] = {}
        self._sums: tuple[tuple[list[Message], int], ...] = ()  # the last sequences, and their tokens
        self._texts: dict[str, int] = {}
        self._gate = threading.Lock()

    @property
    def counter(self) -> TokenCounter:
        """What it counts with."""
        return self._counter

    def count_text(self, text: str) -> int:
        """Return the tokens of a text; the last ones are remembered.

        Raises:
            InvalidInputError: The counter gave something that is no number of tokens.
        """
        if len(text) < _SHORT_TEXT:
            return self._count(text)
        tokens = self._texts.get(text)
        if tokens is None:
            tokens = self._count(text)
            with self._gate:
                if len(self._texts) >= _TEXTS:
                    del self._texts[next(iter(self._texts))]
                self._texts[text] = tokens
        return tokens

    def count_message(self, message: Message) -> int:
        """Return the tokens of a message, with what stands around it (InvalidInputError as `count_text`)."""
        key = id(message)
        found = self._counted.get(key)
        if found is not None and found() is message:
            return found.tokens
        tokens = _MESSAGE_TOKENS + _PART_TOKENS * (len(message.content) - 1) + self._beside(message)
        if message.name:
            tokens += _NAME_TOKENS + self._count(message.name)
        for block in message.content:
            tokens += self._count_block(block)
        counted = _CountedMessage(message, self._forget)
        counted.key, counted.tokens = key, tokens
        self._counted[key] = counted
        return tokens

    def count_messages(self, messages: Iterable[Message]) -> int:
        """Return the tokens of messages together (InvalidInputError as `count_text`).

        A sequence that goes on from one of the last ones costs a comparison with it and the count of what is new.
        """
        wanted = list(messages)
        known = next((one for one in self._sums if wanted[: len(one[0])] == one[0]), None)
        before, tokens = (0, 0) if known is None else (len(known[0]), known[1])
        tokens += sum(map(self.count_message, wanted[before:]))
        if wanted:
            others = [one for one in self._sums if one is not known]
            self._sums = ((wanted, tokens), *others[: _SEQUENCES - 1])
        return tokens

    def _count_block(self, block: ContentBlock) -> int:
        match block:
            case TextBlock():
                return self._count(block.text)
            case ImageBlock():
                return IMAGE_TOKENS + self._count(block.caption or "")
            case FileBlock():
                carried = is_embedded(block.url)
                return (FILE_TOKENS if carried else self._count(block.url)) + self._count(block.said)
            case ToolCallBlock():
                return _CALL_TOKENS + self._count(block.name) + self._count(arguments_text(block))
            case ToolResultBlock():
                return _RESULT_TOKENS + self._count(block.output)
            case OtherBlock():
                rest, embedded = without_base64(block.data)
                return FILE_TOKENS * embedded + self._count(block.kind) + self._count(json_text(rest))

    def _count(self, text: str) -> int:
        if not text:
            return 0
        tokens = self._counter.count(text)
        # A counter is often a user's own. True is no number, and neither is numpy's.
        if type(tokens) is not int or tokens < 0:
            msg = (
                f"token_counter: wanted a whole number of at least 0 from {type(self._counter).__name__}.count, "
                f"found {tokens!r:.60}"
            )
            raise InvalidInputError(msg)
        return tokens

    def _forget(self, gone: weakref.ref[Message]) -> None:
        # Runs before the memory, and with it the id, can be another message's.
        if isinstance(gone, _CountedMessage) and self._counted.get(gone.key) is gone:
            del self._counted[gone.key]


def without_base64(data: JsonValue) -> tuple[JsonValue, int]:
    """Return a vendor's data with a mark for each image or file that it holds as base64, and how many these are."""
    taken: list[Blob] = []
    return take_base64(data, taken.append), len(taken)


def arguments_text(call: ToolCallBlock) -> str:
    """Return the arguments of a call as they are sent: JSON, or the text as it came."""
    return call.arguments if isinstance(call.arguments, str) else json_text(call.arguments)


def json_text(value: JsonValue) -> str:
    """Write a value as JSON with the characters as they are."""
    return json.dumps(value, ensure_ascii=False)
