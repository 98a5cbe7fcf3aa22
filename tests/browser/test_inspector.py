"""Each page of the inspector in a browser: whole, narrow, dark, without JavaScript; and each act by clicks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe, SyncReMe
from reme_core.errors import MemoryNotFoundError
from tests.browser.conftest import AXE, NARROW, Window

pytestmark = pytest.mark.browser

MANY = int(os.environ.get("REME_BROWSER_MESSAGES", "2000"))
PAGES = ("timeline", "search", "memories", "sessions", "runs", "jobs", "map", "preview", "users", "sign-in")
ASKED = ("search?q=Lisbon&q2=里斯本&why_not=m0&budget=100", "timeline?as_of=2024-06-01T00:00", "session?id=talk")
WAYS: dict[str, dict[str, Any]] = {
    "wide": {"viewport": {"width": 1280, "height": 900}},
    "narrow": {"viewport": {"width": NARROW, "height": 740}},
    "dark": {"color_scheme": "dark"},
    "no script": {"java_script_enabled": False},
}
TALK = [
    {"role": "user", "name": "Ana", "content": "My sister Eva lives in Lisbon.", "message_id": "m0"},
    {"role": "assistant", "content": "Is she happy there?", "message_id": "m1"},
    {"role": "user", "name": "Ana", "content": "我妹妹住在里斯本,她喜欢海鲜。" * 20, "message_id": "m2"},
    {"role": "user", "name": "Ana", "content": "wordwithoutanyblank" * 60, "message_id": "m3"},
    {"role": "tool", "name": "<b>tool</b>", "content": "<script>alert(1)</script>", "message_id": "m4"},
]


def opened(folder: Path) -> SyncReMe:
    return ReMe.sync("default", folder, llm=None, embedding=None)


def kept(folder: Path) -> str:
    """Keep a talk, and memories of it; return the id of a memory."""
    with opened(folder) as memory:
        memory.summary(TALK, user_id="ana", session_id="talk")
        eva = {"content": "Eva lives in Lisbon.", "memory_target": "Eva", "sources": [{"message_ids": ["m0"]}]}
        long = {"content": "词" * 300 + "x" * 300, "memory_target": "目标" * 100, "when_to_use": "<i>"}
        told = [
            ("Eva", "sister of", "user"),
            ("Eva", "同事", "李明" * 40),
            ("<script>alert(1)</script>", "x" * 60, "Eva"),
        ]
        related = [
            {"content": f"told {place}", "memory_target": name, "relations": [(name, *more)]}
            for place, (name, *more) in enumerate(told)
        ]
        many = [{"content": f"fact {n}", "relations": [("user", "knows", f"friend {n}")]} for n in range(50)]
        first, *_ = memory.add_memories([eva, long, *related, *many], user_id="ana", reason="<b>why</b>")
    return first.memory_id


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
def test_each_page_is_whole(window_on: Callable[..., Window], tmp_path: Path, way: str, *, filled: bool) -> None:
    ids = [f"memory?id={kept(tmp_path)}", "message?id=m2", *ASKED] if filled else []
    if not filled:
        with opened(tmp_path) as memory:
            memory.stats(user_id="ana")
    window = window_on(tmp_path, **WAYS[way])
    for path in (*PAGES, *ids):
        window.open(path)
        if way == "no script":  # nothing can be asked of the page then
            assert window.faults == []
            assert window.page.locator("h1").is_visible()
        else:
            window.check()


def test_pages_meet_the_rules_of_access(window_on: Callable[..., Window], tmp_path: Path) -> None:
    if not AXE.is_file():
        pytest.skip(f"there is no axe-core at {AXE}: npm install --prefix .venv-browser axe-core")
    ids = [f"memory?id={kept(tmp_path)}", "message?id=m2", *ASKED]
    for scheme in ("light", "dark"):
        window = window_on(tmp_path, color_scheme=scheme)
        for path in (*PAGES, *ids):
            window.open(path)
            window.page.evaluate(AXE.read_text())
            found = window.page.evaluate("axe.run()")["violations"]
            told = [(item["id"], item["impact"], item["nodes"][0]["html"]) for item in found]
            assert [item for item in told if item[1] in {"serious", "critical"}] == [], (path, scheme)


@pytest.mark.timeout(1800)  # most of it is the writing of what is then looked at
def test_a_user_of_many_messages_is_shown_page_by_page(window_on: Callable[..., Window], tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for session in range(MANY // 500):
            turns = [("user", f"turn {number} of {session}, we walked to the river") for number in range(500)]
            memory.summary(turns, user_id="ana", session_id=f"s{session}")
    for way in ("wide", "narrow"):
        window = window_on(tmp_path, **WAYS[way])
        for path in ("timeline", "sessions", "session?id=s0", "search?q=river+turn+7", "users"):
            window.open(path)
            window.check()
        window.open("timeline")
        newest = window.page.locator("main").inner_text()
        with window.page.expect_navigation():
            window.page.get_by_role("link", name="Older").click()
        window.check()
        assert window.page.locator("main").inner_text() != newest


def test_each_act_is_done_by_clicks_without_javascript(window_on: Callable[..., Window], tmp_path: Path) -> None:
    memory_id = kept(tmp_path)
    window = window_on(tmp_path, java_script_enabled=False)
    page = window.page

    def now(name: str = memory_id) -> Any:
        with opened(tmp_path) as memory:
            return memory.get_memory(name, user_id="ana")

    window.open(f"memory?id={memory_id}")
    page.get_by_label("The same fact").fill("Eva lives in Porto.")
    page.get_by_role("button", name="Show the difference").first.click()
    assert page.locator("ins").inner_text() == "Porto"
    assert now().content == "Eva lives in Lisbon."
    page.get_by_role("button", name="Yes, do it").click()
    assert now().content == "Eva lives in Porto."

    page.get_by_role("link", name="a run").first.click()
    page.get_by_role("button", name="Undo this run").click()
    page.get_by_role("button", name="Yes, do it").click()
    assert now().content == "Eva lives in Lisbon."

    window.open(f"memory?id={memory_id}")
    page.get_by_label("What holds now").fill("Eva lives in Faro.")
    page.get_by_role("button", name="Show the difference").last.click()
    page.get_by_role("button", name="Yes, do it").click()
    newer = now().superseded_by
    assert now(newer).content == "Eva lives in Faro."

    page.get_by_role("button", name="Forget").click()
    page.get_by_role("button", name="Yes, do it").click()
    with pytest.raises(MemoryNotFoundError):
        now(newer)

    page.get_by_role("button", name="Erase its history for good").click()
    page.get_by_role("button", name="Yes, do it").click()
    assert "the memory is gone" in page.locator("main").inner_text()
    assert not any(b"Faro" in file.read_bytes() for file in tmp_path.glob("memory.db*"))

    window.open("users")
    page.get_by_role("button", name="Delete everything").click()
    page.get_by_role("textbox").fill("ana")
    page.get_by_role("button", name="Delete everything").click()
    with opened(tmp_path) as memory:
        assert memory.stats(user_id="ana").memories == 0
    assert window.faults == []
