"""Selection of the messages worth keeping: each once, without what memory itself has put there."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

from agentscope.message import Msg

from reme_agentscope._shared.recorded_text import IdLedger, is_injection
from reme_core.adapting import BLOCK_TOOLS

OWN_TOOLS = frozenset({"record_to_memory", "retrieve_from_memory", *BLOCK_TOOLS})
"""Calls of these and what they answer are memories already: kept once more, they would be found instead of them."""

_CALLS = frozenset({"tool_use", "tool_result"})
_MOST_WAITING = 64


def read_handed_over(given: object, error: str) -> list[Msg]:
    """Return messages: one, a list of them, None among them left out (TypeError, with this text)."""
    if given is None:
        return []
    items = [given] if isinstance(given, Msg) else given
    if not isinstance(items, list | tuple):
        raise TypeError(error)
    messages = [item for item in items if item is not None]
    if not all(isinstance(item, Msg) for item in messages):
        raise TypeError(error)
    return messages


def text_of(msg: Msg) -> str:
    """Return what was said, without thinking; `""` for nothing."""
    if isinstance(msg.content, str):
        return msg.content
    texts = [block.get("text") for block in _blocks(msg) if block.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))


class SeenMessages:
    """Knows what was handed over before. JSON by `state` and `restore`."""

    def __init__(self) -> None:
        """Nothing was."""
        self._ledger = IdLedger()
        self._under_way: set[str] = set()
        self._waiting: list[Msg] = []

    def take(self, given: Iterable[Msg], *, waits_for_results: bool) -> list[Msg]:
        """Return what is new, in order, and count it as taken. Tell `settle` of what is returned.

        Args:
            given: The whole talk, or part of it.
            waits_for_results: Keep messages with tool calls back until all results are handed over, maybe without them.
        """
        items = list({_id(msg): msg for msg in (*self._waiting, *given)}.values())
        back = _without_results(items) if waits_for_results else frozenset()
        self._waiting = [msg for msg in items if _id(msg) in back][-_MOST_WAITING:]
        ready = [msg for msg in items if _id(msg) not in back]
        new = frozenset(self._ledger.claim(map(_id, ready)))
        taken = [own for msg in ready if _id(msg) in new and (own := _own_words(msg)) is not None]
        self._under_way.update(map(_id, taken))
        return taken

    def settle(self, taken: Iterable[Msg]) -> None:
        """Have messages counted in the state, too: they are on disk, or never will be."""
        self._under_way.difference_update(map(_id, taken))

    def state(self) -> dict[str, object]:
        """Return what is known; without what is not on disk yet, which is lost where the process ends now."""
        recorded = [known for known in self._ledger.snapshot() if known not in self._under_way]
        return {"recorded": recorded, "waiting": [msg.to_dict() for msg in self._waiting]}

    def restore(self, state: Mapping[str, object]) -> None:
        """Replace what is known; what can't be read leaves nothing."""
        self._ledger.restore(state.get("recorded"))
        waiting = state.get("waiting")
        try:
            self._waiting = [Msg.from_dict(dict(item)) for item in waiting] if isinstance(waiting, list) else []
        except (KeyError, TypeError, ValueError, AssertionError):  # calls without results, of a state that is damaged
            self._waiting = []


def _without_results(messages: Sequence[Msg]) -> frozenset[str]:
    """Return the ids of messages with calls that nothing here answers, and of those that answer only some of them.

    Some models use the ids of calls again.
    """
    asked: dict[str, str] = {}
    waiting: dict[str, str] = {}
    answers: list[tuple[str, str]] = []
    for msg in messages:
        for block in _blocks(msg):
            call_id = str(block.get("id"))
            if block.get("type") == "tool_use":
                asked[call_id] = waiting[call_id] = _id(msg)
            elif block.get("type") == "tool_result":
                waiting.pop(call_id, None)
                answers.append((asked.get(call_id, ""), _id(msg)))
    open_ids = frozenset(waiting.values())
    return open_ids.union(answer_id for asked_in, answer_id in answers if asked_in in open_ids)


def _own_words(msg: Msg) -> Msg | None:
    """Return a message without calls of memory; None where memory or AgentScope has written all of it."""
    if is_injection(name=msg.name, text=text_of(msg), metadata=msg.metadata):
        return None
    if not isinstance(msg.content, list) or not any(map(_is_of_memory, msg.content)):
        return msg
    kept = [block for block in msg.content if not _is_of_memory(block)]
    if not kept:
        return None
    own = copy.copy(msg)
    own.content = kept
    return own


def _is_of_memory(block: object) -> bool:
    return isinstance(block, Mapping) and str(block.get("type")) in _CALLS and str(block.get("name")) in OWN_TOOLS


def _blocks(msg: Msg) -> list[Mapping[str, object]]:
    """Return the blocks; clients set what they like after a message was made."""
    return [block for block in msg.content if isinstance(block, Mapping)] if isinstance(msg.content, list) else []


def _id(msg: Msg) -> str:
    return str(msg.id)
