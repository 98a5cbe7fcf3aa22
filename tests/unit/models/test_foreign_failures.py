"""What providers raise becomes one of our errors, by status and name, without a word of the prompt."""

from __future__ import annotations

import pytest

from reme_core import model_error
from reme_core.errors import ContextTooLongError, ModelError, ModelRejectedError, ModelUnavailableError


class StatusError(Exception):
    def __init__(self, status: int | None, text: str = "secret words", **told: object) -> None:
        super().__init__(text)
        self.status_code = status
        vars(self).update(told)


class RateLimitError(Exception):
    pass


class ContextOverflowError(Exception):
    pass


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (StatusError(429), ModelUnavailableError),
        (StatusError(503), ModelUnavailableError),
        (StatusError(429, code="insufficient_quota"), ModelRejectedError),
        (StatusError(401), ModelRejectedError),
        (StatusError(404), ModelRejectedError),
        (StatusError(400, "maximum context length is 8192 tokens"), ContextTooLongError),
        (StatusError(404, "maximum context length is 8192 tokens"), ModelRejectedError),
        (StatusError(None, response={"ResponseMetadata": {"HTTPStatusCode": 500}}), ModelUnavailableError),
        (RateLimitError("secret words"), ModelUnavailableError),
        (ContextOverflowError("secret words"), ContextTooLongError),
        (TimeoutError("secret words"), ModelUnavailableError),
        (StatusError(None, is_retryable=True), ModelUnavailableError),
        (ValueError("secret words"), ModelRejectedError),
    ],
)
def test_a_failure_is_mapped_and_none_of_its_words_are_told(raised: Exception, kind: type[ModelError]) -> None:
    error = model_error(raised, "the model")
    assert type(error) is kind
    assert str(error).startswith(f"the model: {type(raised).__name__}")
    assert "secret" not in str(error)
