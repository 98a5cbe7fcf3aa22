"""Failures of an OpenAI-compatible endpoint, read and mapped to ours in this one place."""

from __future__ import annotations

import importlib
import math
import re
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import urlsplit

import openai
from pydantic import SecretStr

from reme_core.errors import ContextTooLongError, ModelError, ModelRejectedError, ModelUnavailableError

Foreign: TypeAlias = openai.OpenAIError | TimeoutError


def _transport_error() -> type[Exception]:
    """Find the base error of the HTTP library below: httpx under openai 2, httpx2 under openai 3.

    Streams of openai 2 let it through as it is.
    """
    base = openai.DefaultAsyncHttpxClient.__mro__[1]
    library = importlib.import_module(base.__module__.partition(".")[0])
    error: type[Exception] = library.TransportError
    return error


TRANSPORT_ERROR = _transport_error()

_PASSING = frozenset({408, 409, 429})
_NEVER_REACHED = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout"})
_PLAIN = re.compile(r"[\w.\-\[\]]{1,60}")
# As worded by OpenAI, vLLM, llama.cpp, Anthropic's and Google's compatible endpoints, and DashScope.
_TOO_LONG = re.compile(
    r"context_length_exceeded|exceed_context_size|string_above_max_length|context (?:length|window|size)|"
    r"(?:prompt|input|request)\W+(?:is|was)?\W*too long|too many (?:input )?tokens|range of input length|"
    r"input token count|maximum (?:input|sequence) length|max(?:imum)? (?:number of )?(?:input )?tokens allowed|"
    r"reduce (?:the|your) (?:length|prompt|input)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointAddress:
    """Where a request goes, for messages: the model, the URL, the variables that set key and URL, the secret.

    The URL is told without user, password and query.
    """

    model: str
    base_url: str = field(repr=False)
    key_variable: str
    url_variable: str
    secret: SecretStr | None

    @property
    def url(self) -> str:
        """The URL without what may be secret in it."""
        return safe_url(self.base_url)


def safe_url(url: str) -> str:
    """Return a URL without user, password, query and fragment."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def may_pass(exc: Foreign) -> bool:
    """Tell whether the same request may succeed later: no connection, time-out, 408, 409, 429 and 5xx."""
    if isinstance(exc, openai.APIStatusError):
        if exc.code == "insufficient_quota":  # a 429 that waiting does not heal
            return False
        return exc.status_code in _PASSING or exc.status_code >= 500
    return isinstance(exc, openai.APIConnectionError | TimeoutError)


def was_reached(exc: Foreign) -> bool:
    """Tell whether the request got to the endpoint, as far as can be known."""
    refused = isinstance(exc, openai.APIConnectionError) and type(exc.__cause__).__name__ in _NEVER_REACHED
    return not refused


def retry_after_s(exc: Foreign) -> float | None:
    """Return the seconds that the endpoint asks to wait; None where it says nothing, or a date."""
    if not isinstance(exc, openai.APIStatusError):
        return None
    try:
        seconds = float(exc.response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def complaint(error: ModelError) -> str:
    """Return what the endpoint said, in lower case; it may hold parts of the prompt, so it is for us alone."""
    cause = error.__cause__
    return f"{cause} {cause.body!r}".lower() if isinstance(cause, openai.APIError) else ""


def translate(exc: Foreign, place: EndpointAddress, *, attempts: int) -> ModelError:
    """Return our error for a foreign one: its text names status, code and a hint, and no words of the endpoint."""
    _scrub(exc, place.secret)
    return _mapped(exc, place, attempts)


def _mapped(exc: Foreign, place: EndpointAddress, attempts: int) -> ModelError:
    where = f"{place.model!r} at {place.url!r}"
    tries = f"after {attempts} attempt{'s' if attempts != 1 else ''}"
    if isinstance(exc, openai.APITimeoutError | TimeoutError):
        return ModelUnavailableError(f"{where}: no answer in time {tries}: raise `timeout_s`, or try again later")
    if isinstance(exc, openai.APIConnectionError):
        return ModelUnavailableError(
            f"{where}: no connection {tries}: is the server up, and is the URL right ({place.url_variable})?"
        )
    if isinstance(exc, openai.APIStatusError):
        return _from_status(exc, place, f"{where}: {exc.status_code}{_details(exc)}", tries)
    if isinstance(exc, openai.APIError):
        return ModelUnavailableError(f"{where}: the answer ended with an error{_details(exc)}: try again later")
    return ModelRejectedError(f"{where}: the client refused the request ({type(exc).__name__}): see its cause")


def _from_status(exc: openai.APIStatusError, place: EndpointAddress, what: str, tries: str) -> ModelError:
    said = f"{exc.code} {exc.message} {exc.body!r}"
    if exc.status_code in {400, 413, 422, 500} and _TOO_LONG.search(said):
        return ContextTooLongError(f"{what}: the request is longer than the model's context window: shorten it")
    if may_pass(exc):
        return ModelUnavailableError(f"{what}, {tries}: try again later")
    match exc.status_code:
        case 401:
            hint = f"the key was refused: set {place.key_variable}, or pass `api_key`"
        case 403:
            hint = f"this key may not use the model: check the account, or {place.key_variable}"
        case 404:
            hint = f"no such model or path: check the model's name and {place.url_variable} (most end in '/v1')"
        case 429:
            hint = "the quota is used up: check the account's plan and billing"
        case _:
            hint = "the endpoint refused the request: see the cause for its own words"
    return ModelRejectedError(f"{what}: {hint}")


def _details(exc: openai.APIError) -> str:
    """Name code and parameter where they are identifiers; anything longer could be prompt text."""
    named = (("code", exc.code), ("type", exc.type), ("parameter", exc.param))
    details = [f"{what} {value!r}" for what, value in named if isinstance(value, str) and _PLAIN.fullmatch(value)]
    return f" ({', '.join(details)})" if details else ""


def _scrub(exc: BaseException, secret: SecretStr | None) -> None:
    """Take the key out of the foreign error: some endpoints repeat it, and tracebacks and messages show it."""
    key = secret.get_secret_value() if secret else ""
    if not key:
        return
    exc.args = tuple(arg.replace(key, "***") if isinstance(arg, str) else arg for arg in exc.args)
    if isinstance(exc, openai.APIError):
        exc.message = exc.message.replace(key, "***")
        if key in f"{exc.code} {exc.type} {exc.param} {exc.body!r}":
            exc.code = exc.type = exc.param = exc.body = None
