"""The inspector as an ASGI application: who is signed in, which page is asked for, and failures as pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from reme_core.errors import ReMeError
from reme_core.facade.reme import ReMe
from reme_core.serve.access import Principal, Right, UnauthorizedError
from reme_core.serve.failures import log_bug, status_of, told_words
from reme_core.serve.inspect import acts, memory_pages, preview_page, run_pages, search_page, talk_pages, user_pages
from reme_core.serve.inspect.door import PREFIX, SESSION_S, BrowserSession, BrowserSessions
from reme_core.serve.inspect.view import HEADERS, TEMPLATES, View, environment, read_form
from reme_core.serve.service import Service

Page: TypeAlias = Callable[[View], Awaitable[Response]]

PAGES: Mapping[str, Page] = {
    "": talk_pages.timeline,
    "timeline": talk_pages.timeline,
    "sessions": talk_pages.sessions,
    "session": talk_pages.session,
    "message": talk_pages.message,
    "blob": talk_pages.blob,
    "memories": memory_pages.memories,
    "memory": memory_pages.memory,
    "map": memory_pages.targets,
    "search": search_page.search,
    "runs": run_pages.runs,
    "run": run_pages.run,
    "jobs": run_pages.jobs,
    "users": user_pages.users,
    "export": user_pages.export,
    "preview": preview_page.form,
}
ACTS: Mapping[str, Page] = {
    "preview": preview_page.preview,
    "memory/edit": acts.edit,
    "memory/supersede": acts.supersede,
    "memory/forget": acts.forget,
    "memory/erase": acts.erase,
    "run/undo": acts.undo,
    "job/retry": acts.retry_job,
    "job/drop": acts.drop_job,
    "user/delete": acts.delete_user,
}
_FILES: Mapping[str, str] = {"style.css": "text/css", "icon.svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Inspector:
    """ASGI application of all pages under the prefix."""

    service: Service
    sessions: BrowserSessions
    write: bool
    previewing: ReMe | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        page = request.url.path.removeprefix(PREFIX).strip("/")
        try:
            if page in _FILES:
                return Response((TEMPLATES / page).read_bytes(), media_type=_FILES[page], headers=HEADERS)
            if page == "open" and request.method == "GET":
                return self._accept(request)
            session = self._session(request)
            if page == "sign-in":
                return await self._sign_in(request)
            if session is None:
                return _sign_in_page(401)
            if page == "sign-out" and request.method == "POST":
                await read_form(request, session)
                return self._sign_out(request)
            return await self._of_user(request, session, page)
        except UnauthorizedError as exc:
            return _sign_in_page(401, told_words(exc))
        except ReMeError as exc:
            return _failure(told_words(exc), status_of(exc))
        except Exception as exc:  # noqa: BLE001  # the outer edge of a request
            log_bug(request.url.path, exc)
            return _failure("something went wrong here; the service's log says where", 500)

    async def _of_user(self, request: Request, session: BrowserSession, page: str) -> Response:
        answers = {"GET": PAGES, "HEAD": PAGES, "POST": ACTS}.get(request.method, {})
        if page not in answers:
            return _failure("there is no such page", 404)
        caller = session.principal if session.key is None else await self.service.keys.find(session.key)
        caller.require(Right.READ)
        form = await read_form(request, session) if request.method == "POST" else {}
        user = form.get("user") or request.query_params.get("user", "")
        view = View(
            request=request,
            memory=await self.service.memory_of(caller),
            previewing=self.previewing,
            caller=caller,
            principal=caller.act_as(user) if user else caller,
            session=session,
            writes=self.write,
            form=form,
        )
        return await answers[page](view)

    def _session(self, request: Request) -> BrowserSession | None:
        return self.sessions.find(request.cookies.get(_cookie(request), ""))

    def _accept(self, request: Request) -> Response:
        name = self.sessions.accept(request.query_params.get("token", ""))
        if name is None:
            msg = "this address was used already, or is too old: start `reme inspect` again, or sign in with a key"
            raise UnauthorizedError(msg)
        return _signed_in(request, name)

    async def _sign_in(self, request: Request) -> Response:
        if request.method != "POST":
            return _sign_in_page(200)
        key = (await read_form(request, None)).get("key", "").strip()
        try:
            principal: Principal = await self.service.keys.find(key)
            principal.require(Right.READ)
        except ReMeError as exc:
            return _sign_in_page(status_of(exc), told_words(exc))
        return _signed_in(request, self.sessions.open(principal, key))

    def _sign_out(self, request: Request) -> Response:
        self.sessions.close(request.cookies.get(_cookie(request), ""))
        response = RedirectResponse(f"{PREFIX}/sign-in", 303, HEADERS)
        response.delete_cookie(_cookie(request), path=PREFIX)
        return response


def _cookie(request: Request) -> str:
    """Return the name of the cookie: browsers send one of a host to all of its ports."""
    return f"reme_inspect_{request.url.port or 0}"


def _signed_in(request: Request, name: str) -> Response:
    response = RedirectResponse(PREFIX, 303, HEADERS)
    response.set_cookie(
        _cookie(request),
        name,
        max_age=SESSION_S,
        path=PREFIX,
        httponly=True,
        samesite="strict",
        # A proxy that speaks https has told us none of it: the browser does, with the form that it sends.
        secure="https" in {request.url.scheme, request.headers.get("origin", "").partition(":")[0]},
    )
    return response


def _sign_in_page(status: int, problem: str = "") -> Response:
    text = environment().get_template("sign_in.html").render(problem=problem)
    return HTMLResponse(text, status, HEADERS)


def _failure(words: str, status: int) -> Response:
    text = environment().get_template("failure.html").render(words=words, status=status)
    return HTMLResponse(text, status, HEADERS)
