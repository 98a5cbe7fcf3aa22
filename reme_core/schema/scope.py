"""Scope: whose data a call may touch. And the random ids of what lies in it."""

from __future__ import annotations

import uuid
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from reme_core.errors import InvalidInputError
from reme_core.schema.checks import check_scope_part, describe, shown

_ADVICE = "give the id of the user, or shared=True for the shared scope of the memory space"


def _check_user(value: str) -> str:
    return check_scope_part(value) if value else value


class Scope(BaseModel):
    """Memory space and user: the isolation boundary, a separate argument of every call to a port.

    Names are compared character by character: no case folding, no Unicode normalisation, no wildcards (`*` is a name
    like any other). The shared scope of the space is kept as the user `""`; callers ask for it by `shared=True`, which
    `make_scope` reads.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    memory_space: Annotated[str, AfterValidator(check_scope_part)]
    user_id: Annotated[str, AfterValidator(_check_user)]

    @property
    def is_shared(self) -> bool:
        """Whether this is the space's shared scope."""
        return self.user_id == ""


def make_scope(memory_space: object, user_id: object = None, *, shared: object = False) -> Scope:
    """Build a scope from what a caller gave: a user, or the shared scope of the space by `shared=True`.

    Raises:
        InvalidInputError: Neither or both are named, the user is blank, a part is not a string or looks like a path.
    """
    if not isinstance(shared, bool):
        msg = f"shared: wanted True or False, found {shown(shared)}"
        raise InvalidInputError(msg)
    if shared and user_id is not None:
        msg = f"user_id and shared: user_id={shown(user_id)} and shared=True name two scopes: leave one of them out"
        raise InvalidInputError(msg)
    if not shared and user_id is None:
        msg = f"user_id: whose memory? no user is named: {_ADVICE}"
        raise InvalidInputError(msg)
    if isinstance(user_id, str) and not user_id.strip():
        msg = f"user_id: is {'blank' if user_id else 'empty'}, which is no user: {_ADVICE}"
        raise InvalidInputError(msg)
    try:
        return Scope.model_validate({"memory_space": memory_space, "user_id": "" if shared else user_id})
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, "scope")) from exc


def new_id() -> str:
    """Return 32 hexadecimal characters of a random UUID (version 4), never derived from content."""
    return uuid.uuid4().hex
