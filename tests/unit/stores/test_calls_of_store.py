"""Each call of the port `Store` is one of the stores: with its arguments, and a sentence for `help`."""

from __future__ import annotations

import inspect

import pytest

from reme_core.ports import Store
from reme_core.stores import IndexedStore, LocalStore

CALLS = [name for name, _ in inspect.getmembers(Store, inspect.isfunction) if not name.startswith("_")]


@pytest.mark.parametrize("kind", [LocalStore, IndexedStore])
@pytest.mark.parametrize("name", CALLS)
def test_a_store_has_the_calls_of_the_port_as_help_shows_them(kind: type, name: str) -> None:
    call = getattr(kind, name)
    _, *wanted = inspect.signature(getattr(Store, name)).parameters
    _, *found = inspect.signature(call).parameters
    assert [parameter.rstrip("_") for parameter in found] == wanted
    assert call.__doc__
