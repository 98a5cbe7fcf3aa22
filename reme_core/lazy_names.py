"""Names of a package that are loaded on first use (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def lazy_names(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package whose modules give these names, with blanks between them.

    A module is an attribute too, as type checkers take it and as it is once something of it was asked for.

    Raises:
        AttributeError: By what is returned: the package has no such name.
    """
    places = {name: module for module, given in names.items() for name in given.split()}

    def load(name: str) -> object:
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        if name not in places:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        value: object = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
