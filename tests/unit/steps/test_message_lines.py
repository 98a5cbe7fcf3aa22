"""Things found by id: those that there are, and no asking without an end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reme_core.errors import MessageNotFoundError
from reme_core.steps.message_lines import find_all


class Shelf:
    """Holds some ids, and says of others that they are missing: all of them, or what it is told to say."""

    def __init__(self, held: str, said: Sequence[str] | None = None) -> None:
        self.held, self.said = held, said

    async def get(self, ids: Sequence[str]) -> list[str]:
        if missing := [name for name in ids if name not in self.held]:
            raise MessageNotFoundError(missing if self.said is None else self.said)
        return [name.upper() for name in ids]


async def test_those_that_there_are_come_once_in_the_order_named() -> None:
    assert await find_all(Shelf("abc").get, ["c", "x", "a", "c", "y"]) == ["C", "A"]
    assert await find_all(Shelf("abc").get, ["x"]) == []
    assert await find_all(Shelf("abc").get, []) == []


@pytest.mark.parametrize("said", [(), ("z",)])
async def test_a_store_that_names_nothing_of_what_was_asked_is_asked_once(said: tuple[str, ...]) -> None:
    with pytest.raises(MessageNotFoundError):
        await find_all(Shelf("abc", said).get, ["a", "x"])
