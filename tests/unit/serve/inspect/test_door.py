"""The door to the inspector: nobody without a token, no form of somebody else, no frame, nothing kept by a cache."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest

from reme_core import ReMe
from reme_core.schema import make_scope
from reme_core.serve.access import Principal, Right
from reme_core.serve.inspect.app import ACTS, PAGES
from reme_core.serve.inspect.door import INVITATION_S, SESSION_S, BrowserSessions
from tests.unit.serve.inspect.conftest import BASE, Browser

ANA = Principal(scope=make_scope("space", "ana"))


@pytest.mark.parametrize("page", ["", *PAGES, "nothing"])
def test_without_a_session_there_is_no_page(browser_as: Callable[..., Browser], home: ReMe, page: str) -> None:
    browser = browser_as(signed_in=False)
    browser.call(partial(home.add_memory, "Ana likes tea.", user_id="ana"))
    path = f"/inspect/{page}" if page else "/inspect"
    assert browser.get(path) == 401
    assert "tea" not in browser.page
    assert browser.client.post(path, data={"confirmed": "yes"}).status_code == 401


def test_an_invitation_is_good_once(browser_as: Callable[..., Browser]) -> None:
    browser = browser_as(signed_in=False)
    token = browser.sessions.invite(browser.principal)
    answer = browser.client.get("/inspect/open", params={"token": token}, follow_redirects=False)
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "Path=/inspect" in cookie
    assert browser.get("/inspect/timeline") == 200
    browser.client.cookies.clear()
    assert browser.get("/inspect/open", token=token) == 401
    assert browser.get("/inspect/timeline") == 401
    assert browser.get("/inspect/open") == 401


def test_invitations_and_sessions_end() -> None:
    now = 0.0
    sessions = BrowserSessions(lambda: now)
    invitation, name = sessions.invite(ANA), sessions.open(ANA)
    assert sessions.find(invitation) is None  # an invitation is no session
    now = INVITATION_S
    assert sessions.accept(invitation) is None
    assert sessions.find(name) is not None
    now = SESSION_S
    assert sessions.find(name) is None


def test_a_key_signs_in_until_it_is_revoked(browser_as: Callable[..., Browser], home: ReMe) -> None:
    browser = browser_as(signed_in=False)
    token, key = browser.call(partial(browser.service.keys.add, make_scope("space", "ana"), ["read"]))
    browser.call(partial(home.add_memory, "Ana likes tea.", user_id="ana"))
    for wrong in ("", "reme_wrong", token[:-1]):
        assert browser.client.post("/inspect/sign-in", data={"key": wrong}).status_code == 401
    assert browser.client.post("/inspect/sign-in", data={"key": token}).status_code == 200
    assert browser.get("/inspect/memories") == 200
    assert "Ana likes tea." in browser.page
    assert token not in browser.page
    browser.call(partial(browser.service.keys.revoke, key.key_id))
    assert browser.get("/inspect/memories") == 401


def test_who_is_unknown_sends_no_more_than_a_key(browser_as: Callable[..., Browser]) -> None:
    browser = browser_as(signed_in=False)
    assert browser.client.post("/inspect/sign-in", data={"key": "a" * 5000}).status_code == 422


def test_a_session_that_came_by_https_stays_there(browser_as: Callable[..., Browser]) -> None:
    """A proxy speaks https to the browser and http to us."""
    browser = browser_as(signed_in=False)
    token, _ = browser.call(partial(browser.service.keys.add, make_scope("space", "ana"), ["read"]))
    for scheme in ("http", "https"):
        headers = {"Origin": BASE.replace("http", scheme)}
        answer = browser.client.post("/inspect/sign-in", data={"key": token}, headers=headers, follow_redirects=False)
        assert ("Secure" in answer.headers["set-cookie"]) is (scheme == "https")


def test_who_may_no_longer_come_is_asked_to_sign_in(browser_as: Callable[..., Browser]) -> None:
    browser = browser_as(signed_in=False)
    token, key = browser.call(partial(browser.service.keys.add, make_scope("space", "ana"), ["read"]))
    browser.client.post("/inspect/sign-in", data={"key": token})
    browser.call(partial(browser.service.keys.revoke, key.key_id))
    assert browser.get("/inspect/memories") == 401
    assert "it was revoked" in browser.page
    assert 'action="/inspect/sign-in"' in browser.page


def test_signing_out_ends_the_session(browser: Browser) -> None:
    browser.get("/inspect/timeline")
    kept = dict(browser.client.cookies)
    browser.send("/inspect/sign-out")
    browser.client.cookies.update(kept)
    assert browser.get("/inspect/timeline") == 401


def test_a_form_without_the_token_of_the_session_does_nothing(browser: Browser, home: ReMe) -> None:
    kept = browser.call(partial(home.add_memory, "Ana likes tea.", user_id="ana"))
    given = {"id": kept.memory_id, "content": "x", "confirmed": "yes", "revision": "1", "name": "ana"}
    for act in ACTS:
        for csrf in ({}, {"csrf": ""}, {"csrf": "wrong"}, {"csrf": "ä"}):
            assert browser.client.post(f"/inspect/{act}", data={**given, **csrf}).status_code == 403
        assert act in PAGES or browser.client.get(f"/inspect/{act}", params={**given}).status_code == 404
    assert browser.call(partial(home.get_memory, kept.memory_id, user_id="ana")) == kept


def test_pages_of_somebody_else_are_refused(browser: Browser) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
        assert browser.client.get("/inspect/timeline", headers=headers).status_code == 403
    assert browser.client.get("/inspect/timeline", headers={"Origin": BASE}).status_code == 200


def test_each_answer_forbids_frames_scripts_and_caches(browser: Browser) -> None:
    for path in ("timeline", "nothing", "style.css", "export", "sign-in", "memory?id=none"):
        headers = browser.client.get(f"/inspect/{path}").headers
        rules = headers["content-security-policy"]
        assert "default-src 'self'" in rules, path
        assert "frame-ancestors 'none'" in rules
        assert "script-src 'none'" in rules
        assert "unsafe" not in rules
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_without_write_and_without_the_right_nothing_is_changed(browser_as: Callable[..., Browser], home: ReMe) -> None:
    reads = browser_as(write=False)
    kept = reads.call(partial(home.add_memory, "Ana likes tea.", user_id="ana"))
    few = browser_as(rights=frozenset({Right.READ}), of=reads)
    for browser in (reads, few):
        assert browser.get("/inspect/memory", id=kept.memory_id) == 200
        assert "/inspect/memory/" not in browser.page
        session = browser.page.partition('name="csrf" value="')[2].partition('"')[0]
        for act in ACTS if browser is few else [name for name in ACTS if name != "preview"]:
            given = {"csrf": session, "id": kept.memory_id, "content": "x", "confirmed": "yes", "revision": "1"}
            assert browser.client.post(f"/inspect/{act}", data={**given, "name": "ana"}).status_code == 403
    assert reads.call(partial(home.get_memory, kept.memory_id, user_id="ana")) == kept


def test_the_pages_are_loaded_when_one_is_asked_for() -> None:
    """Whoever serves without ever looking pays for none of it."""
    unwanted = "{'jinja2', 'reme_core.serve.inspect.app'}"
    code = f"import sys, reme_core.serve.doors; sys.exit(not sys.modules.keys().isdisjoint({unwanted}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
