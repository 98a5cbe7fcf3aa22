"""A pattern of labels that says which namespaces are memories: whose, of which type and in which space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from reme_core.errors import InvalidInputError
from reme_core.schema import MemoryType, make_scope, shown
from reme_langchain.store._namespace_labels import check_encodable

OWNER, KIND, SPACE = "{owner}", "{kind}", "{space}"
PLACEHOLDERS = frozenset({OWNER, KIND, SPACE})
KINDS = (
    MemoryType.IDENTITY,
    MemoryType.PERSONAL,
    MemoryType.PROCEDURAL,
    MemoryType.TOOL,
    MemoryType.SUMMARY,
)
KIND_NAMES = frozenset(KINDS)
OWN_SPACE = "default"


@dataclass(frozen=True, slots=True)
class NamespaceRule:
    """Says which namespaces are memories.

    A label of the pattern stands for itself, or is one of the placeholders `{owner}` (user id, needed), `{kind}`
    (memory type) and `{space}` (memory space), which match one label that `encode_label` can have made. Labels beyond
    the pattern are the topic. A namespace that can't be a scope, or whose label under `{kind}` is no memory type,
    does not match: what lies there are plain items.

    Attributes:
        pattern: The labels, from the root.
        kind: The memory type, where no label names it; left out it is `personal`.
        space: The memory space, where no label names it; `default` is that of the memory handed to the store.
    """

    pattern: Sequence[str]
    kind: str | None = field(default=None, kw_only=True)
    space: str = field(default=OWN_SPACE, kw_only=True)

    def __post_init__(self) -> None:
        """Check the pattern.

        Raises:
            InvalidInputError: It names no owner, a placeholder is only part of a label, unknown or there twice, or
                the argument says what a label says as well.
        """
        if isinstance(self.pattern, str) or not isinstance(self.pattern, Sequence):
            msg = f"pattern: wanted a tuple of labels such as ('memories', '{{owner}}'), found {shown(self.pattern)}"
            raise InvalidInputError(msg)
        object.__setattr__(self, "pattern", tuple(self.pattern))  # the documented way for a frozen dataclass
        for label in self.pattern:
            _check_label(label)
        if self.pattern.count(OWNER) != 1:
            msg = (
                f"pattern {self.pattern!r}: wanted one label '{{owner}}', or all users would share their memories; "
                "the shared scope is the owner '', whose label is '%'"
            )
            raise InvalidInputError(msg)
        for placeholder, given in ((KIND, self.kind is not None), (SPACE, self.space != OWN_SPACE)):
            if self.pattern.count(placeholder) + given > 1:
                msg = f"pattern {self.pattern!r}: {placeholder} is said twice; give it once, as label or as argument"
                raise InvalidInputError(msg)
        if self.pattern[0] == "langgraph":
            msg = f"pattern {self.pattern!r}: the root 'langgraph' belongs to LangGraph; choose another one"
            raise InvalidInputError(msg)
        if self.kind is not None:
            read_kind(self.kind)
        make_scope(self.space, "")


def read_kind(kind: object) -> MemoryType:
    """Return the memory type of that name (InvalidInputError)."""
    if isinstance(kind, str) and kind in KIND_NAMES:
        return MemoryType(kind)
    msg = f"kind: wanted one of {', '.join(KINDS)}, found {shown(kind)}"
    raise InvalidInputError(msg)


def _check_label(label: object) -> None:
    if not isinstance(label, str) or not label or "." in label or "\0" in label:
        msg = f"pattern: wanted labels that are texts without '.' and NUL, found {shown(label)}"
        raise InvalidInputError(msg)
    check_encodable(label)
    if label not in PLACEHOLDERS and ("{" in label or "}" in label):
        msg = f"pattern: {label!r}: a placeholder is a whole label, one of {', '.join(sorted(PLACEHOLDERS))}"
        raise InvalidInputError(msg)
