"""Names of a package that are loaded on first use (PEP 562), and the extra that a missing library comes with."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

from reme_core.errors import MissingExtraError


def lazy_names(
    package: str, names: Mapping[str, str], *, extras: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package whose names are loaded on first use.

    Args:
        package: The package's name.
        names: Modules of the package, and the names that each gives, with blanks between them. A package that a module
            lies in is an attribute too, as it is once something of it was asked for.
        extras: Libraries that may be missing, and the extra that brings each.

    Raises:
        AttributeError: By what is returned: the package has no such name.
        MissingExtraError: By what is returned: a library of `extras` is not installed.
    """
    places = {name: module for module, given in names.items() for name in given.split()}

    def load(name: str) -> object:
        if name in names:
            return importlib.import_module(f"{package}.{name}")
        if name not in places:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        try:
            value: object = getattr(importlib.import_module(f"{package}.{places[name]}"), name)
        except ModuleNotFoundError as exc:
            library = (exc.name or "").partition(".")[0]
            if extras is None or library not in extras:
                raise
            raise MissingExtraError(library=library, extra=extras[library], wanted_for=name) from exc
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *places})
