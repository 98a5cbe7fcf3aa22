"""Objects that come from outside: of our types, and yet not always what these promise.

A subclass may have fields of its own, and neither `model_copy(update=...)` nor a change inside a dictionary is checked
by pydantic. What was written so could not be read again, so such objects are checked like dictionaries.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from reme_core.errors import InvalidInputError
from reme_core.schema.problems import describe

T = TypeVar("T", bound=BaseModel)


def fields_of(item: BaseModel, where: str, *, without: Collection[str] = ()) -> dict[str, object]:
    """Return the fields of an object as plain values, those of a subclass too.

    Raises:
        InvalidInputError: They can't be written as plain values: a dictionary that holds itself, say.
    """
    wanted = set(type(item).model_fields).difference(without)
    try:
        return item.model_dump(include=wanted, warnings=False)
    except (ValueError, RecursionError) as exc:
        msg = f"{where}: has a value that can't be read: {str(exc)[:200]}"
        raise InvalidInputError(msg) from exc


def checked_again(item: T, model: type[T], where: str) -> T:
    """Return an object as a checked one of exactly this type; fields that were left out stay so (`model_fields_set`).

    Raises:
        InvalidInputError: Naming the place (`results[3].time_cost`) and the reason.
    """
    try:
        checked = model.model_validate(fields_of(item, where))
    except ValidationError as exc:
        raise InvalidInputError(describe(exc, where)) from exc
    checked.model_fields_set.intersection_update(item.model_fields_set)
    return checked
