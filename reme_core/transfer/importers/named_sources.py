"""Names of the sources that the command line and `ReMe.import_from` know, and the place of what reads each."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import cast

from reme_core.errors import InvalidInputError, MissingExtraError
from reme_core.transfer.importers.items import ImportSource

SOURCES: Mapping[str, str] = {
    "mem0": "reme_core.transfer.importers.mem0:Mem0Source",
    "openmemory": "reme_core.transfer.importers.openmemory:OpenMemorySource",
    "langmem": "reme_langchain.importing.langmem:LangMemSource",
    "langgraph": "reme_langchain.importing.threads:LangGraphThreads",
    "basic-memory": "reme_core.transfer.importers.note_trees:BasicMemoryNotes",
    "chatgpt": "reme_core.transfer.importers.chatgpt:ChatGPTExport",
    "claude": "reme_core.transfer.importers.claude:ClaudeExport",
    "reme-0.3": "reme_core.transfer.importers.reme_vectors:ReMeVectors",
    "reme-0.4": "reme_core.transfer.importers.note_trees:ReMeNotes",
}
"""By name, a module and what it has there that makes an `ImportSource` of a path or URL; it is loaded on first use."""

_NAME_CHARS = 80
_EXTRAS = {"langchain_core": "langgraph", "langgraph": "langgraph", "ormsgpack": "langgraph"}


def open_source(name: str, place: str | Path) -> ImportSource:
    """Return what reads the data of another system; nothing is opened yet.

    Raises:
        InvalidInputError: No source has this name; the message names those that there are.
        MissingExtraError: It needs a library that is not installed.
    """
    if name not in SOURCES:
        near = get_close_matches(name[:_NAME_CHARS].lower(), SOURCES, n=1)
        meant = f": did you mean {near[0]!r}?" if near else ""
        msg = f"source: wanted one of {', '.join(SOURCES)}, found {name[:_NAME_CHARS]!r}{meant}"
        raise InvalidInputError(msg)
    module, _, maker = SOURCES[name].partition(":")
    try:
        make = getattr(importlib.import_module(module), maker)
    except ModuleNotFoundError as exc:
        library = (exc.name or "").partition(".")[0]
        if library not in _EXTRAS:
            raise
        raise MissingExtraError(library=library, extra=_EXTRAS[library], wanted_for=f"importing {name}") from exc
    return cast("ImportSource", make(os.path.expanduser(place)))  # noqa: PTH111  # Path's own has no answer for unknown users
