"""Check of the installed generation of AgentScope, and the errors where a name needs the other one."""

from __future__ import annotations

import importlib.metadata
import re
from types import MappingProxyType

from reme_core.errors import MissingExtraError

# The first releases whose classes have what ours override.
_LOWEST = MappingProxyType({1: (1, 0, 16), 2: (2, 0, 4)})
_INSTEAD = MappingProxyType(
    {
        "ReMePersonalLongTermMemory": "agentscope 2 has no long-term memory classes; use ReMeMiddleware",
        "ReMeTaskLongTermMemory": "agentscope 2 has no long-term memory classes; use ReMeMiddleware",
        "ReMeToolLongTermMemory": "agentscope 2 has no long-term memory classes; use ReMeMiddleware",
        "ReMeMemory": "agentscope 2 keeps the talk in its AgentState; use ReMeMiddleware and ReMeOffloader",
        "ReMeSession": "agentscope 2 keeps sessions in the storage of its service; use AgentState with ReMeMiddleware",
        "ReMeMiddleware": "agentscope 1 has no middleware; use ReMePersonalLongTermMemory",
        "ReMeMiddlewares": "agentscope 1 has no agent service; use ReMePersonalLongTermMemory",
        "ReMeOffloader": "agentscope 1 has no offloader; use ReMeMemory",
        "create_memory_tools": "agentscope 1 has its memory tools in the memory; use ReMePersonalLongTermMemory",
    }
)


class AgentScopeMissingError(MissingExtraError):
    """AgentScope is not installed, or not in the generation that is needed."""

    def __init__(self, message: str, *, extra: str) -> None:
        """Keep the sentence and the extra that brings what is needed."""
        super().__init__(library="agentscope", extra=extra, wanted_for="reme_agentscope")
        self.message = self.msg = message
        self.args = (message,)


def agentscope_version() -> str | None:
    """Return the version of AgentScope that is installed, None without one; nothing of it is imported."""
    try:
        return importlib.metadata.version("agentscope")
    except importlib.metadata.PackageNotFoundError:
        return None


def require(major: int | None, name: str) -> int:
    """Return the generation that is installed, where `name` can be had in it.

    Args:
        major: The generation that `name` needs; None: either.
        name: The public name that is asked for.

    Raises:
        MissingExtraError: No AgentScope, one of the other generation, or one that is too old.
    """
    found = agentscope_version()
    if found is None:
        wanted = "agentscope" if major is None else f"agentscope {major}.x"
        msg = (
            f"{name} needs {wanted}, which is not installed: pip install 'reme-memory[agentscope1]' "
            "for AgentScope 1.x, or 'reme-memory[agentscope2]' for 2.x"
        )
        raise AgentScopeMissingError(msg, extra=f"agentscope{major or 2}")
    numbers = _numbers(found)
    generation = numbers[0]
    if generation not in _LOWEST or major not in {None, generation}:
        wanted = "agentscope 1.x or 2.x" if major is None else f"agentscope {major}.x"
        extra = f"agentscope{major or 2}"
        advice = f"pip install 'reme-memory[{extra}]'"
        if generation in _LOWEST:
            advice = _INSTEAD.get(name, advice)
        msg = f"{name} needs {wanted}, found {found}: {advice}"
        raise AgentScopeMissingError(msg, extra=extra)
    if numbers < _LOWEST[generation]:
        lowest = ".".join(map(str, _LOWEST[generation]))
        extra = f"agentscope{generation}"
        msg = f"{name} needs agentscope >= {lowest}, found {found}: pip install --upgrade 'reme-memory[{extra}]'"
        raise AgentScopeMissingError(msg, extra=extra)
    return generation


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"(?:\d+!)?v?(\d+(?:\.\d+)*)", version.strip())
    return tuple(map(int, found[1].split("."))) if found else (0,)
