"""Trust classes: whose words a message or a memory rests on, told by us from roles and never by a model."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pydantic import JsonValue

TRUST = "trust"
"""In the metadata of a message: the name of a class, which lowers that of its role and never raises it."""

OF_PEOPLE = ("user", "import", "file")
"""Authors of memories that people write, or keep in files of their own; any other author is an agent."""


class TrustClass(StrEnum):
    """Whose words something rests on, from the most trusted to the least.

    `user` is the person, or the application in its name; `assistant` a model; `tool` what a tool answered; `web` what
    came from outside, where anybody may have written it.
    """

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    WEB = "web"


_ORDER = tuple(TrustClass)


def least_trusted(classes: Iterable[TrustClass]) -> TrustClass:
    """Return the class that is trusted least; `user` for none."""
    return max(classes, key=_ORDER.index, default=TrustClass.USER)


def trust_of_author(author: object) -> TrustClass:
    """Return the class of a memory of which only the author is known."""
    return TrustClass.USER if author in OF_PEOPLE else TrustClass.ASSISTANT


def trust_field(trust: TrustClass, told: str | None = None) -> dict[str, JsonValue]:
    """Return the class as a field of a JSON line in a prompt: none for `user`, or where a role `told` there says it."""
    return {} if trust.value in {"user", told} else {"trust": trust.value}


def trust_mark(trust: TrustClass) -> str:
    """Return the class as it stands before a text in a prompt, such as `[web] `; "" for `user`."""
    return "" if trust is TrustClass.USER else f"[{trust}] "
