"""A memory that is joined from others is no more trusted than the least trusted of them."""

from __future__ import annotations

from reme_core.evolve.merged_memory import merge
from reme_core.testing.store_values import NOW, changed, memory


def test_a_joined_memory_has_the_class_of_its_least_trusted_part() -> None:
    own, page = memory("Ann likes tea."), changed(memory("Ann likes tea"), {"trust": "web"})
    assert merge([own, page], "Ann likes tea.", "words", at=NOW).after.trust == "web"
