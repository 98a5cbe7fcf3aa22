"""Types that a graph declares: a checkpointer rebuilds those without being told."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, get_args, get_type_hints, is_typeddict
from weakref import WeakKeyDictionary

from pydantic import BaseModel
from typing_extensions import is_typeddict as is_typeddict_of_backport

from reme_langchain.saver._value_codec import why_not_rebuilt

_MOST = 20_000  # things that are looked at in one graph
_LONGEST = 1_000  # a longer list holds data
_STRUCTURED = "langchain.agents.structured_output"
_LIBRARIES = ("langchain", "langgraph")
_OF_A_GRAPH = ("builder", "nodes", "channels", "input_schema", "output_schema", "context_schema")


class DeclaredTypes:
    """Finds the graphs that call a checkpointer, and what they declare; each graph is looked at once."""

    def __init__(self) -> None:
        """Begin with no graph."""
        self._found: WeakKeyDictionary[object, frozenset[tuple[str, str]]] = WeakKeyDictionary()

    def of_callers(self) -> frozenset[tuple[str, str]]:
        """Return (module, name) of what the graphs declare that are running now.

        LangGraph hands a checkpointer neither the graph nor its schemas, unless its strict mode is on, and never what
        is given as `response_format`. So the frames that lead here are asked: all methods of a graph ask for a
        checkpoint, before a model is called, from a frame of the graph.

        Raises:
            TypeError: A structured answer would not be rebuilt, since no module has its class.
        """
        found: set[tuple[str, str]] = set()
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001  # as `inspect.currentframe` does
        while frame is not None:
            caller = _caller(frame)
            if _is_graph(caller):
                if caller not in self._found:
                    self._found[caller] = frozenset((each.__module__, each.__name__) for each in _declared_in(caller))
                found |= self._found[caller]
            frame = frame.f_back
        return frozenset(found)


def _caller(frame: FrameType) -> object:
    """Return whose method runs in a frame; None: no object's, or one of an event loop."""
    if frame.f_code.co_varnames[:1] != ("self",) or str(frame.f_globals.get("__name__")).startswith("asyncio."):
        return None
    return frame.f_locals.get("self")  # to ask for them copies all


def _is_graph(thing: object) -> bool:
    module = sys.modules.get("langgraph.pregel")  # where nobody has loaded it, no graph is
    return module is not None and isinstance(thing, module.Pregel)


def _is_runnable(thing: type) -> bool:
    module = sys.modules.get("langchain_core.runnables.base")  # as above: to load it takes half a second
    return module is not None and issubclass(thing, module.Runnable)


def _declared_in(graph: object) -> Iterator[type]:
    """Yield the data types of schemas, of annotations, and those that the code of nodes and tools names.

    Schemas are those of state, input, output, context and structured output; what a node sends, or interrupts with, is
    of a type that it annotates or names.
    """
    waiting: list[object] = [graph]
    seen: dict[int, object] = {}  # kept, so that no other thing gets its id
    while waiting and len(seen) < _MOST:
        thing = waiting.pop()
        if thing is None or id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if isinstance(thing, type) and _is_data(thing):
            yield thing
        if type(thing).__module__ == _STRUCTURED:
            _check_answer(getattr(thing, "schema", None))
        waiting.extend(_inside(thing))


def _check_answer(schema: object) -> None:
    if isinstance(schema, type) and _is_data(schema):
        module = sys.modules.get(schema.__module__)
        if getattr(module, schema.__name__, None) is not schema:
            raise TypeError("response_format: " + why_not_rebuilt(schema.__module__, schema.__name__))


def _is_data(thing: type) -> bool:
    """Return whether this is a class of plain data, which its fields make up."""
    if thing is BaseModel or _is_runnable(thing):
        return False
    is_named_tuple = issubclass(thing, tuple) and hasattr(thing, "_fields")
    return issubclass(thing, BaseModel | Enum) or dataclasses.is_dataclass(thing) or is_named_tuple


def _inside(thing: object) -> Iterable[object]:
    """Return what a thing consists of, as far as types may be declared there."""
    match thing:
        case type():
            return _hints(thing) if _is_data(thing) or is_typeddict(thing) or is_typeddict_of_backport(thing) else ()
        case _ if _is_graph(thing):
            return [vars(thing).get(name) for name in _OF_A_GRAPH]
        case FunctionType():
            return [*_hints(thing), *_cells(thing), *_named_in(thing)]
        case MethodType():
            return [thing.__func__]
        case partial():
            return [thing.func, *thing.args, *thing.keywords.values()]
        case Mapping() if len(thing) <= _LONGEST:
            return list(thing.values())
        case list() | tuple() | set() | frozenset() if len(thing) <= _LONGEST:
            return list(thing)
        case _ if get_args(thing):
            return get_args(thing)
        case _ if type(thing).__module__.startswith(_LIBRARIES) or dataclasses.is_dataclass(thing):
            slots = [getattr(thing, name, None) for name in getattr(type(thing), "__slots__", ())]
            return [*getattr(thing, "__dict__", {}).values(), *slots]
    return ()


def _hints(thing: Any) -> list[object]:  # noqa: ANN401  # a class or a function
    try:
        return list(get_type_hints(thing).values())
    except Exception:  # noqa: BLE001  # an annotation that can't be resolved declares nothing
        return []


def _cells(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _named_in(function: FunctionType) -> Iterator[object]:
    """Yield the classes that a function of the user's names."""
    if function.__module__ and function.__module__.startswith((*_LIBRARIES, "reme_")):
        return
    codes: list[CodeType] = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        named = (function.__globals__.get(name) for name in code.co_names)
        yield from (thing for thing in named if isinstance(thing, type) or _is_graph(thing))
