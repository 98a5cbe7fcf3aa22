"""Reading of pickles without unpickling: opcodes build plain values, no name is looked up and nothing is called.

Local Qdrant keeps each point so, and older FAISS stores of mem0 their texts.
"""

from __future__ import annotations

import io
import pickletools

from pydantic import JsonValue

_MARK = object()
_MOST_STEPS = 1 << 23
"""Opcodes of one pickle: each may make an object of some 100 bytes. A docstore of 64 MB has some 6 million."""

_MOST_CHARS = 1 << 26
"""Of all texts, counted wherever they stand: a text that is kept once may stand in 100,000 places."""

_VALUES = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"}
    | {"SHORT_BINBYTES", "BINBYTES"}
)


class Inert:
    """What stands for an object of a pickle: its state, if it has one; the object is never made."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        """Be without state."""
        self.state: object = None


def read_inert(data: bytes) -> object:
    """Return what a pickle holds: dicts, lists, tuples, texts and numbers; objects, sets among them, are `Inert`.

    It takes time and room in proportion to the data. One value may stand in many places: who walks through all of them
    takes care of depth. Keys are texts and numbers: of a tuple, the hash goes through all that is nested in it.

    Raises:
        ValueError: It is damaged, too large, or has an opcode that no plain value needs.
    """
    stack: list[object] = []
    memo: dict[int, object] = {}
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(io.BytesIO(data))):
            if opcode.name == "STOP":
                return stack.pop()
            if number == _MOST_STEPS:
                msg = f"is a pickle of more than {_MOST_STEPS} steps"
                raise ValueError(msg)
            _step(opcode.name, argument, stack, memo)
    except (IndexError, KeyError, TypeError) as exc:
        msg = "is a damaged pickle"
        raise ValueError(msg) from exc
    msg = "is a pickle without an end"
    raise ValueError(msg)


def _step(name: str, argument: object, stack: list[object], memo: dict[int, object]) -> None:
    match name:
        case "PROTO" | "FRAME":
            pass
        case "NONE" | "NEWTRUE" | "NEWFALSE":
            stack.append({"NONE": None, "NEWTRUE": True, "NEWFALSE": False}[name])
        case "MARK":
            stack.append(_MARK)
        case "EMPTY_DICT":
            stack.append({})
        case "EMPTY_LIST":
            stack.append([])
        case "EMPTY_SET" | "GLOBAL":
            stack.append(Inert())
        case "EMPTY_TUPLE":
            stack.append(())
        case "TUPLE":
            stack.append(tuple(_marked(stack)))
        case "TUPLE1" | "TUPLE2" | "TUPLE3":
            stack.append(tuple(_popped(stack, int(name[-1]))))
        case "STACK_GLOBAL" | "NEWOBJ" | "REDUCE":
            _popped(stack, 2)
            stack.append(Inert())
        case "MEMOIZE":
            memo[len(memo)] = stack[-1]
        case "BINPUT" | "LONG_BINPUT":
            memo[int(str(argument))] = stack[-1]
        case "BINGET" | "LONG_BINGET":
            stack.append(memo[int(str(argument))])
        case "SETITEM" | "APPEND":
            _fill(_popped(stack, 2 if name == "SETITEM" else 1), stack[-1])
        case "SETITEMS" | "APPENDS" | "ADDITEMS":
            _fill(_marked(stack), stack[-1])
        case "BUILD":
            _build(stack.pop(), stack[-1])
        case _ if name in _VALUES:
            stack.append(argument)
        case _:
            msg = f"is a pickle with a part that is not read ({name})"
            raise ValueError(msg)


def _popped(stack: list[object], count: int) -> list[object]:
    items = [stack.pop() for _ in range(count)]
    return items[::-1]


def _marked(stack: list[object]) -> list[object]:
    items: list[object] = []
    while (item := stack.pop()) is not _MARK:
        items.append(item)
    return items[::-1]


def _fill(items: list[object], held: object) -> None:
    if isinstance(held, dict):
        pairs = zip(items[::2], items[1::2], strict=True)
        held.update({key: item for key, item in pairs if isinstance(key, (str, int, float))})
    elif isinstance(held, list):
        held.extend(items)
    elif not isinstance(held, Inert):
        raise TypeError


def _build(state: object, held: object) -> None:
    if not isinstance(held, Inert):
        raise TypeError
    held.state = state


def as_json(value: object, *, most: int = 100_000, depth: int = 32) -> JsonValue:
    """Return what was read as JSON; what JSON has no form for becomes null.

    Raises:
        ValueError: It has more parts than `most`, counted wherever they stand, is nested deeper than `depth`, or has
            more than 64 million characters.
    """
    left, chars = [most], [_MOST_CHARS]

    def plain(part: object, below: int) -> JsonValue:
        left[0] -= 1
        if left[0] < 0 or below < 0:
            msg = f"has more than {most} parts, or is nested deeper than {depth}"
            raise ValueError(msg)
        if isinstance(part, dict):
            return {text(str(key)): plain(item, below - 1) for key, item in part.items() if isinstance(key, (str, int))}
        if isinstance(part, (list, tuple)):
            return [plain(item, below - 1) for item in part]
        return text(part) if isinstance(part, str) else part if isinstance(part, (int, float)) else None

    def text(part: str) -> str:
        chars[0] -= len(part)
        if chars[0] < 0:
            msg = f"has more than {_MOST_CHARS} characters"
            raise ValueError(msg)
        return part

    return plain(value, depth)
