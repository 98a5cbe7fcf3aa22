"""Relations that memories tell: a subject, what it is to an object, and the object."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from reme_core.schema.checks import Text

MAX_RELATIONS = 8
"""Relations of one memory: it is one statement, so most tell none, one or two."""

MAX_NAME_CHARS = 120
"""A name, or what one is to another, is a few words."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")


def _one_line(text: str) -> str:
    """Return a text as one line (ValueError: there is nothing else than blanks in it)."""
    line = " ".join(_CONTROL.sub(" ", text).split())
    if not line:
        msg = "is empty: a relation has a subject, what it is to the object, and the object"
        raise ValueError(msg)
    return line


ShortLine = Annotated[Text, AfterValidator(_one_line), Field(max_length=MAX_NAME_CHARS)]


class Relation(BaseModel):
    """What one is to another, as a memory tells it: "Lea", "sister of", "Ann".

    Attributes:
        subject: Who or what; in full, as it is called elsewhere. `user` is who the memories belong to.
        relation: What that is to the object, read from the subject to the object.
        object: To whom or what.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    subject: ShortLine
    relation: ShortLine
    object: ShortLine

    def __str__(self) -> str:
        """Tell it in its order."""
        return f"{self.subject} {self.relation} {self.object}"


def _of_three(value: object) -> object:
    """Return the fields of a relation that is written as its three texts; anything else as it is."""
    if isinstance(value, (list, tuple)) and len(value) == len(Relation.model_fields):
        return dict(zip(Relation.model_fields, value, strict=True))
    return value


ToldRelation = Annotated[Relation, BeforeValidator(_of_three)]
"""A relation, which may also be given as its three texts in order."""
