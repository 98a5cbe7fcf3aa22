"""Scope: whose data a call may touch. And the random ids of what lies in it."""

from __future__ import annotations

import uuid
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from reme_core.errors import InvalidInputError
from reme_core.schema.checks import check_scope_part, describe


def _check_user(value: str) -> str:
    return check_scope_part(value) if value else value


class Scope(BaseModel):
    """Memory space and user: the isolation boundary, a separate argument of every call to a port.

    Names are compared character by character: no case folding, no Unicode normalisation, no wildcards (`*` is a name
    like any other). `user_id=""` is the shared scope of the space.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    memory_space: Annotated[str, AfterValidator(check_scope_part)]
    user_id: Annotated[str, AfterValidator(_check_user)]

    @property
    def is_shared(self) -> bool:
        """Whether this is the space's shared scope."""
        return self.user_id == ""


def make_scope(memory_space: object, user_id: object) -> Scope:
    """Build a scope from what a caller gave.

    Raises:
        InvalidInputError: A part is not a string, is empty where it may not be, or looks like a path.
    """
    try:
        return Scope.model_validate({"memory_space": memory_space, "user_id": user_id})
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, "scope")) from exc


def new_id() -> str:
    """Return 32 hexadecimal characters of a random UUID (version 4), never derived from content."""
    return uuid.uuid4().hex
