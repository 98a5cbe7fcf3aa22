"""One request to the inspector as a page sees it: whose memory, what was asked, what may be done; and the answer."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TypedDict
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from reme_core.errors import InvalidInputError
from reme_core.facade.reme import ReMe
from reme_core.schema import ContentBlock, ImageBlock, Scope, shown_validity, successor_word
from reme_core.schema.hits import with_hidden_shown
from reme_core.serve.access import ForbiddenError, Principal, Right
from reme_core.serve.inspect.day_charts import DayChart
from reme_core.serve.inspect.door import PREFIX, BrowserSession
from reme_core.serve.inspect.name_map import NameMap
from reme_core.serve.inspect.pictures import Timeline
from reme_core.steps import user_input as inputs

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'self'; script-src 'none'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer a browser sends Origin: null with forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
TEMPLATES = Path(__file__).parent / "templates"
_MANY_CHARS = 600
_SIGN_IN_CHARS = 4096
_MAX_DIGITS = 18  # of a whole number of 64 bits


class OfUser(TypedDict):
    """The user whose memory is looked at, for the methods of `ReMe`."""

    user_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One request.

    Attributes:
        request: As it came.
        memory: The memory of the caller's space.
        previewing: What has a chat model for previews alone, where `memory` has none: that one would do jobs, too.
        caller: Who is signed in.
        principal: The same as the user whose memory is looked at.
        session: The browser's session.
        writes: Whether the inspector was started with `--write`.
        form: The fields of a form that was sent.
    """

    request: Request
    memory: ReMe
    previewing: ReMe | None = None
    caller: Principal
    principal: Principal
    session: BrowserSession
    writes: bool
    form: Mapping[str, str]

    @property
    def scope(self) -> Scope:
        """Whose memory is looked at."""
        return self.principal.scope

    @property
    def whose(self) -> OfUser:
        """The same as an argument."""
        return {"user_id": self.scope.user_id}

    def may(self, right: Right) -> bool:
        """Tell whether the caller may do what takes this right."""
        return right in self.principal.rights and (self.writes or right is Right.READ)

    def require(self, right: Right) -> None:
        """Refuse what may not be done (ForbiddenError)."""
        if not self.writes and right is not Right.READ:
            msg = "the inspector only reads: start `reme inspect` with --write, or `reme serve` with --inspector-writes"
            raise ForbiddenError(msg)
        self.principal.require(right)

    def ask(self, name: str) -> str:
        """Return a field of the address, "" where it is not there."""
        return self.request.query_params.get(name, "").strip()

    def ask_time(self, name: str) -> datetime | None:
        """Return a field of the address that is a time (InvalidInputError)."""
        return inputs.read_time(self.ask(name) or None, name)

    def cursor(self) -> str | None:
        """Return the cursor that the address names."""
        return self.ask("cursor") or None

    def number(self) -> int | None:
        """Return the cursor of a list of numbered things."""
        return whole(self.ask("cursor"))

    def link(self, page: str, **fields: str | int | None) -> str:
        """Return the address of a page of the same user."""
        given = {name: value for name, value in fields.items() if value not in {None, ""}}
        if self.scope.user_id != self.caller.scope.user_id:
            given.setdefault("user", self.scope.user_id)
        return f"{PREFIX}/{page}" + (f"?{urlencode(given)}" if given else "")

    def next_page(self, cursor: str | None, **more: str) -> str | None:
        """Return the address of the next page of the same list."""
        if cursor is None:
            return None
        fields = {name: value for name, value in self.request.query_params.items() if name != "cursor"}
        return f"{self.request.url.path}?{urlencode({**fields, 'cursor': cursor, **more})}"

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Return a page made of a template."""
        text = environment().get_template(f"{template}.html").render(view=self, page=template, **values)
        return HTMLResponse(text, status, HEADERS)

    def go(self, address: str) -> Response:
        """Send the browser to a page, after something was done."""
        return RedirectResponse(address, 303, HEADERS)


async def read_form(request: Request, session: BrowserSession | None) -> dict[str, str]:
    """Read the fields of a form (ForbiddenError: it is not one of ours)."""
    body = (await request.body()).decode("utf-8", "replace")
    if session is None and len(body) > _SIGN_IN_CHARS:  # of somebody unknown, whom it costs nothing
        msg = "this is no access key: send one of `reme keys add`"
        raise InvalidInputError(msg)
    # Browsers end the lines of a form in their own way.
    form = {name: value.replace("\r\n", "\n") for name, value in parse_qsl(body, keep_blank_values=True)}
    if session is not None and not hmac.compare_digest(form.get("csrf", "").encode(), session.csrf.encode()):
        msg = "this form is not of this session: load the page again"
        raise ForbiddenError(msg)
    return form


def whole(text: str) -> int | None:
    """Read a whole number, None for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None


def field(form: Mapping[str, str], name: str) -> str:
    """Return a field of a form that has to be there (InvalidInputError)."""
    if value := form.get(name, "").strip():
        return value
    msg = f"{name}: is missing"
    raise InvalidInputError(msg)


@cache
def environment() -> Environment:
    """Return the templates; every value is escaped, and what nobody would see in it is shown (not so by `as_is`)."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.tests["raster"] = _is_raster
    made.filters |= {
        "minute": _minute,
        "day": _day,
        "short": _short,
        "validity": shown_validity,
        "successor_word": successor_word,
        "number": _number,
        "as_is": escape,
    }
    return made


def draw(kind: str, picture: Timeline | NameMap | DayChart) -> str:
    """Return a picture of this kind, `timeline`, `map` or a chart, as an SVG file of its own."""
    style = Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))  # noqa: S704  # our own file
    return environment().get_template("picture.svg").render(kind=kind, picture=picture, style=style)


def _shown(value: object) -> object:
    return with_hidden_shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _is_raster(block: ContentBlock) -> bool:
    """Whether a block says that it is an image that browsers show and that runs nothing; its bytes are looked at."""
    kinds = {"image/png", "image/jpeg", "image/gif", "image/webp", "image/*"}
    return isinstance(block, ImageBlock) and (block.media_type or "").lower() in kinds


def _minute(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _day(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment:%Y-%m-%d}"


def _short(text: str, chars: int = _MANY_CHARS) -> str:
    return text if len(text) <= chars else f"{text[:chars]} […]"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
