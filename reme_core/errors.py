"""Every exception of reme.

```
ReMeError                            retryable: ClassVar[bool] = False
├── InvalidInputError                (also a ValueError) something handed in is wrong; names what, and what to do
│   └── InvalidLinesError            lines=… of a file
├── ConfigurationError
│   └── MissingExtraError            (also an ImportError) an optional library is not installed
├── StoreError
│   ├── NotFoundError                the id is unknown *in this scope*
│   │   ├── MemoryNotFoundError (also MemoryBlockNotFoundError) · MessageNotFoundError · BlockNotFoundError ·
│   │   │   RunNotFoundError · JobNotFoundError · OffloadNotFoundError · ToolCallNotFoundError · BlobNotFoundError
│   ├── ConflictError                an expected revision, or an id that exists with other content
│   ├── UnsupportedFilterError       a filter that can't be honoured is never ignored
│   ├── DimensionMismatchError · EmbeddingModelMismatchError
│   ├── CorruptDataError
│   ├── RecordMismatchError          memory_id=…, fields=… of an instance that its class does not fit any more
│   ├── SchemaVersionError           written by a newer release, or not ours at all
│   ├── StoreAccessError             no permission, read-only, not a folder
│   ├── StorageFullError             (retryable)
│   ├── StoreUnavailableError        (retryable) locked, busy, unreachable
│   └── StoreClosedError
├── ModelError
│   ├── ModelUnavailableError        (retryable) time-out, rate limit, server error, no connection
│   ├── ModelRejectedError           the endpoint refused the request: key, model name, arguments
│   ├── ModelOutputError             raw=…
│   └── ContextTooLongError
└── RunError
    ├── BudgetExceededError · StepLimitError
    └── PartialFailureError          done=…, failures=…
ToolFeedback(Exception)              a signal to the model, what to correct; never reaches the caller
```

All of them survive pickling: arguments are kept as given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class ReMeError(Exception):
    """Base of every failure that reme reports.

    Attributes:
        retryable: Whether the same call may succeed later, unchanged.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, message: str) -> None:
        """Keep `message`, a sentence that says what was wanted, what was found and what to do."""
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by class, message and attributes, whatever the constructor of a subclass takes."""
        return (rebuild_error, (type(self), self.message, self.__dict__.copy()))


def rebuild_error(kind: type[ReMeError], message: str, state: dict[str, object]) -> ReMeError:
    """Make an error of its class, message and attributes: of a pickle, or of what a service has told."""
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(state)
    return error


class InvalidInputError(ReMeError, ValueError):
    """Something handed in can't be used; nothing was written."""


class InvalidLinesError(InvalidInputError):
    """A file has lines that can't be used; nothing of it was taken over.

    Attributes:
        lines: Their numbers, from 1, and the reason of each.
    """

    def __init__(self, message: str, *, lines: Sequence[tuple[int, str]] = ()) -> None:
        """Keep the message and the lines."""
        super().__init__(message)
        self.lines = tuple(lines)


class ConfigurationError(ReMeError):
    """Settings that don't go together, or a setting that is missing."""


class MissingExtraError(ConfigurationError, ImportError):
    """An optional library is needed and not installed.

    Attributes:
        library: The module that is missing.
        extra: The extra of `reme-memory` that brings it.
    """

    def __init__(self, *, library: str, extra: str, wanted_for: str) -> None:
        """Name the library, the extra that brings it and what asked for it."""
        super().__init__(f"{wanted_for} needs {library!r}, which is not installed: pip install 'reme-memory[{extra}]'")
        self.library = library
        self.extra = extra


class StoreError(ReMeError):
    """A store could not do what it was asked to do."""


class NotFoundError(StoreError):
    """An id that this scope doesn't hold; ids of other scopes are just as unknown.

    Attributes:
        missing: The ids that were not found.
    """

    noun: ClassVar[str] = "item"

    def __init__(
        self,
        missing: Sequence[str],
        *,
        where: str = "in this scope",
        advice: str = "list what there is, or check memory space and user id",
    ) -> None:
        """Name the ids that were not found, where they were looked for, and what to do."""
        names = ", ".join(repr(item) for item in list(missing)[:5]) + (" …" if len(missing) > 5 else "")
        super().__init__(f"no {self.noun} {names} {where}: {advice}")
        self.missing = tuple(missing)


class MemoryNotFoundError(NotFoundError):
    """No such memory in this scope."""

    noun = "memory"


class MemoryBlockNotFoundError(MemoryNotFoundError):
    """No memory block of this label, of the user's own or granted."""

    noun = "memory block"


class MessageNotFoundError(NotFoundError):
    """No such message in this scope."""

    noun = "message"


class BlockNotFoundError(NotFoundError):
    """No such block in this scope."""

    noun = "block"


class RunNotFoundError(NotFoundError):
    """No such run in this scope."""

    noun = "run"


class JobNotFoundError(NotFoundError):
    """No such job in this scope: it is done, or was dropped."""

    noun = "job"


class OffloadNotFoundError(NotFoundError):
    """No such reference in this scope: there never was, or a clean-up has removed its text."""

    noun = "offload"


class ToolCallNotFoundError(NotFoundError):
    """No such recorded tool call in this scope."""

    noun = "tool call"


class BlobNotFoundError(NotFoundError):
    """No such image or file in this scope."""

    noun = "image or file"


class ConflictError(StoreError):
    """The state is not the expected one: another revision, or an id taken by other content. Read again, then decide."""


class UnsupportedFilterError(StoreError, ValueError):
    """A filter that this store can't honour; it is refused, since ignoring it would widen the search."""


class DimensionMismatchError(StoreError, ValueError):
    """A vector whose length is not that of the vectors stored.

    Attributes:
        expected: The dimension stored, or configured.
        found: The dimension handed in.
    """

    def __init__(self, *, expected: int, found: int, what: str) -> None:
        """Name both dimensions and the thing whose vector is wrong."""
        super().__init__(
            f"{what} has {found} dimensions, this store holds vectors of {expected}: "
            "use the embedding model that the store was written with, or change to the new one by `reme reembed`"
        )
        self.expected = expected
        self.found = found


class EmbeddingModelMismatchError(StoreError, ValueError):
    """A vector of another embedding model than that of the vectors stored: the two can't be compared.

    Attributes:
        expected: The model that made the vectors stored.
        found: The model that made the one handed in.
    """

    def __init__(self, *, expected: str, found: str, what: str) -> None:
        """Name both models and the thing whose vector is wrong."""
        super().__init__(
            f"{what} was made by {found!r}, this memory space holds vectors of {expected!r}: use that model, or change "
            "to the new one by `reme reembed` (if both are names of one model, give it as embedding={..., 'name': ...})"
        )
        self.expected = expected
        self.found = found


class RecordMismatchError(StoreError):
    """A stored instance that its class, which has changed since, does not fit any more; it stays as it is.

    Attributes:
        memory_id: The record.
        fields: The fields that don't fit.
    """

    def __init__(self, message: str, *, memory_id: str = "", fields: Sequence[str] = ()) -> None:
        """Keep the message, the record and the fields."""
        super().__init__(message)
        self.memory_id = memory_id
        self.fields = tuple(fields)


class CorruptDataError(StoreError):
    """What lies on disk can't be what we wrote."""


class SchemaVersionError(StoreError):
    """The file was written by a newer release, or by something else."""


class StoreAccessError(StoreError):
    """The place can't be read or written: permissions, a read-only file system, a folder that is a file."""


class StorageFullError(StoreError):
    """No space left; nothing of this call was written."""

    retryable = True


class StoreUnavailableError(StoreError):
    """Locked, busy or unreachable for now."""

    retryable = True


class StoreClosedError(StoreError):
    """The store was closed; open a new one."""


class ModelError(ReMeError):
    """A model could not do what it was asked to do."""


class ModelUnavailableError(ModelError):
    """Time-out, rate limit, server error or no connection, after the retries."""

    retryable = True


class ModelRejectedError(ModelError):
    """The endpoint refused the request: wrong key, unknown model, arguments it doesn't take."""


class ModelOutputError(ModelError):
    """The model's answer can't be used.

    Attributes:
        raw: The answer as it came.
    """

    def __init__(self, message: str, *, raw: str) -> None:
        """Say what is wrong with the answer and keep it."""
        super().__init__(message)
        self.raw = raw


class ContextTooLongError(ModelError):
    """The request is longer than the model's context window."""


class RunError(ReMeError):
    """A run of an agent or a pipeline ended early."""


class BudgetExceededError(RunError):
    """A run used up its tokens or seconds."""


class StepLimitError(RunError):
    """A run used up its steps."""


class PartialFailureError(RunError):
    """Part of the work was done and is kept; the rest failed.

    Attributes:
        done: What was done, in the form the call would have returned.
        failures: The errors of the rest.
    """

    def __init__(self, message: str, *, done: object, failures: Sequence[ReMeError]) -> None:
        """Say what was kept and keep both sides."""
        super().__init__(message)
        self.done = done
        self.failures = tuple(failures)

    @property
    def all_retryable(self) -> bool:
        """Whether every failure may pass when tried again."""
        return all(failure.retryable for failure in self.failures)


class ToolFeedback(Exception):  # noqa: N818  # a signal to the model, not an error of the caller
    """What a model has to correct in its tool call."""
