"""Functions as tools: `@tool` makes a tool of a function with type hints and a docstring."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, Field, create_model
from pydantic.errors import PydanticUserError

from reme_core.errors import ConfigurationError
from reme_core.ports import ToolContext
from reme_core.schema import shown
from reme_core.tools.base import ToolItem, parameters_of

_ARGS = "Args:"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionTool:
    """A tool that calls a function; see `tool`.

    Attributes:
        name: The name that the model writes.
        description: What it does, for the model.
        arguments: The model of its arguments, made of the function's hints.
        function: What is called; called directly by calling the tool.
        context_name: The parameter that is handed the `ToolContext`; None where the function has none.
        is_concurrent: Whether calls next to each other may run at once.
    """

    name: str
    description: str
    arguments: type[BaseModel]
    function: Callable[..., Any]
    context_name: str | None = None
    is_concurrent: bool = False

    def __call__(self, *args: object, **kwargs: object) -> Any:  # noqa: ANN401  # whatever the function returns
        """Call the function as though it had not been decorated."""
        return self.function(*args, **kwargs)

    async def run(self, arguments: BaseModel, context: ToolContext) -> str:
        """Call the function with checked arguments, off the event loop unless it is async; see `Tool.run`."""
        given: dict[str, object] = {name: getattr(arguments, name) for name in type(arguments).model_fields}
        if self.context_name is not None:
            given[self.context_name] = context
        if inspect.iscoroutinefunction(self.function):
            answer = await self.function(**given)
        else:
            answer = await asyncio.to_thread(self.function, **given)
        return answer if isinstance(answer, str) else str(answer)


def tool(function: Callable[..., Any]) -> FunctionTool:
    """Make a tool of a function, for `AgentOptions(tools=...)`, `AgenticRetriever(tools=...)` and the like.

    Its name is the tool's, the first paragraph of its docstring the description, and what stands under `Args:` what the
    arguments mean; a parameter with the hint `ToolContext` is handed the context and not shown to the model. What it
    returns is told as a text; `ToolFeedback` raised in it tells the model what to correct.

    Raises:
        ConfigurationError: It has no docstring, a parameter without a hint, or one that no schema can be made of.
    """
    if not inspect.isfunction(function):
        msg = f"tool: wanted a function, found {shown(function)}"
        raise ConfigurationError(msg)
    name, told = function.__name__, inspect.getdoc(function) or ""
    if not told:
        msg = f"tool {name!r}: needs a docstring, which tells the model what it does"
        raise ConfigurationError(msg)
    described, _, listed = told.partition(_ARGS)
    hints = get_type_hints(function)
    context_name, fields = None, dict[str, Any]()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY}:
            msg = f"tool {name!r}: {parameter} has no name that a model could write: list the arguments one by one"
            raise ConfigurationError(msg)
        if parameter.name not in hints:
            msg = f"tool {name!r}: the parameter {parameter.name!r} needs a type hint, as in `{parameter.name}: str`"
            raise ConfigurationError(msg)
        if hints[parameter.name] is ToolContext:
            context_name = parameter.name
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            about = _told_of(parameter.name, listed)
            fields[parameter.name] = (hints[parameter.name], Field(default, description=about))
    try:
        arguments = create_model(f"{name}_arguments", __base__=ToolItem, **fields)
        parameters_of(arguments)
    except PydanticUserError as exc:
        msg = f"tool {name!r}: no schema can be made of its hints: use texts, numbers, lists and pydantic models"
        raise ConfigurationError(msg) from exc
    return FunctionTool(
        name=name,
        description=" ".join(described.split("\n\n")[0].split()),
        arguments=arguments,
        function=function,
        context_name=context_name,
    )


def _told_of(name: str, listed: str) -> str | None:
    """Return what the `Args:` of a docstring in Google's form say of a parameter, on its line."""
    for line in listed.splitlines():
        if line.strip().startswith((f"{name}:", f"{name} (")):
            return line.partition(":")[2].strip() or None
    return None
