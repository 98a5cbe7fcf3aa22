"""What the inspector changes: shown first, done when confirmed, told by who and why, found in the store."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from html import unescape
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.errors import MemoryNotFoundError
from reme_core.schema import Job, JobState, Memory, make_scope
from reme_core.serve.access import Right
from tests.unit.serve.inspect.conftest import Browser

TEXT = "Eva lives\nin Lisbon & likes <tea>."


@pytest.fixture
def kept(browser: Browser, home: ReMe) -> Memory:
    return browser.call(partial(home.add_memory, TEXT, user_id="ana", memory_target="Eva"))


def now(browser: Browser, home: ReMe, memory: Memory) -> Memory:
    return browser.call(partial(home.get_memory, memory.memory_id, user_id="ana"))


def test_an_edit_is_shown_then_made(browser: Browser, home: ReMe, kept: Memory) -> None:
    browser.get("/inspect/memory", id=kept.memory_id)
    assert browser.send("/inspect/memory/edit", content=TEXT.replace("Lisbon", "Porto"), reason="she told me") == 200
    assert "<del>Lisbon</del><ins>Porto</ins>" in browser.page
    assert now(browser, home, kept) == kept
    assert browser.send("/inspect/memory/edit") == 200
    assert now(browser, home, kept).content == TEXT.replace("Lisbon", "Porto")
    event = browser.call(partial(home.history, kept.memory_id, user_id="ana"))[-1]
    assert (event.actor, event.reason) == ("user ana", "in the inspector: she told me")
    assert "she told me" in browser.page


def test_what_a_person_does_is_an_event_with_the_person_as_actor(
    browser_as: Callable[..., Browser], home: ReMe, tmp_path: Path
) -> None:
    browser = browser_as(signed_in=False)
    token, key = browser.call(partial(browser.service.keys.add, make_scope("space", "eve"), list(Right)))
    assert browser.client.post("/inspect/sign-in", data={"key": token}).status_code == 200
    memory = browser.call(partial(home.add_memory, "Eva lives in Lisbon.", user_id="ana"))
    shown: dict[str, str] = {"id": memory.memory_id, "user": "ana"}
    for act in ("edit", "supersede", "forget"):
        browser.get("/inspect/memory", **shown)
        browser.send(f"/inspect/memory/{act}", content=f"Eva lives in Porto, {act}.")
        browser.send(f"/inspect/memory/{act}")
    events = browser.call(partial(home.history, memory.memory_id, user_id="ana"))
    browser.get("/inspect/run", id=events[-1].run_id, user="ana")
    browser.send("/inspect/run/undo")
    browser.send("/inspect/run/undo")
    actors = [event.actor for event in browser.call(partial(home.history, memory.memory_id, user_id="ana"))]
    assert actors == ["user", *[f"user eve (key {key.key_id})"] * 4]


def test_a_text_goes_through_the_form_unchanged(browser: Browser, home: ReMe) -> None:
    text = "\n one\n\u202etwo\u202c & \"three\" 'four' </textarea>"
    memory = browser.call(partial(home.add_memory, text, user_id="ana"))
    browser.get("/inspect/memory", id=memory.memory_id)
    shown = browser.page.partition('<textarea name="content" rows="3" required>\n')[2].partition("</textarea>")[0]
    assert unescape(shown) == memory.content
    browser.send("/inspect/memory/edit", content=memory.content.replace("\n", "\r\n"), when_to_use="always")
    browser.send("/inspect/memory/edit")
    changed = now(browser, home, memory)
    assert (changed.content, changed.when_to_use) == (memory.content.strip(), "always")


def test_what_was_changed_meanwhile_is_not_overwritten(browser: Browser, home: ReMe, kept: Memory) -> None:
    for act in ("edit", "supersede", "forget", "erase"):
        browser.get("/inspect/memory", id=kept.memory_id)
        browser.send(f"/inspect/memory/{act}", content=f"by {act}")
        other = browser.call(partial(home.update_memory, kept.memory_id, user_id="ana", content=f"before {act}"))
        assert browser.send(f"/inspect/memory/{act}") == 409
        assert now(browser, home, kept) == other


def test_what_holds_now_takes_the_place_of_what_held(browser: Browser, home: ReMe, kept: Memory) -> None:
    browser.get("/inspect/memory", id=kept.memory_id)
    browser.send("/inspect/memory/supersede", content="Eva lives in Porto.", valid_from="2031-05")
    assert now(browser, home, kept).is_current
    browser.send("/inspect/memory/supersede")
    old = now(browser, home, kept)
    assert old.superseded_by is not None
    newer = browser.call(partial(home.get_memory, old.superseded_by, user_id="ana"))
    assert (newer.content, newer.valid_from.year, newer.memory_target) == ("Eva lives in Porto.", 2031, "Eva")
    assert "Eva lives in Porto." in browser.page


def test_what_is_forgotten_comes_back_by_undoing_the_run(browser: Browser, home: ReMe, kept: Memory) -> None:
    browser.get("/inspect/memory", id=kept.memory_id)
    browser.send("/inspect/memory/forget")
    assert now(browser, home, kept) == kept
    browser.send("/inspect/memory/forget")
    with pytest.raises(MemoryNotFoundError):
        now(browser, home, kept)
    assert "forgotten" in browser.page
    run = re.findall(r"/inspect/run\?id=([0-9a-f]+)", browser.page)[0]
    browser.get("/inspect/run", id=run)
    browser.send("/inspect/run/undo")
    assert "<ins>Eva" in browser.page
    browser.send("/inspect/run/undo")
    assert now(browser, home, kept).content == kept.content


def test_of_a_long_run_the_first_changes_are_shown_and_all_undone(browser: Browser, home: ReMe) -> None:
    drafts = [{"content": f"fact {number}", "memory_target": f"t{number}"} for number in range(60)]
    first, *_ = browser.call(partial(home.add_memories, drafts, user_id="ana"))
    [event] = browser.call(partial(home.history, first.memory_id, user_id="ana"))
    browser.get("/inspect/run", id=str(event.run_id))
    browser.send("/inspect/run/undo")
    assert browser.page.count("<del>fact") == 50
    assert "Of 60 memories the first 50 are shown." in browser.page
    browser.send("/inspect/run/undo")
    assert browser.call(partial(home.list_memories, user_id="ana")).memories == ()


def test_an_erased_memory_leaves_a_certificate_and_nothing_in_the_file(
    browser: Browser, home: ReMe, kept: Memory
) -> None:
    browser.get("/inspect/memory", id=kept.memory_id)
    browser.send("/inspect/memory/erase")
    assert now(browser, home, kept) == kept
    assert browser.send("/inspect/memory/erase") == 200
    assert "the memory is gone" in browser.page
    with pytest.raises(MemoryNotFoundError):
        browser.call(partial(home.history, kept.memory_id, user_id="ana"))
    assert browser.get("/inspect/memory", id=kept.memory_id) == 404
    for file in Path(home.database.path).parent.glob("memory.db*"):
        assert b"likes <tea>" not in file.read_bytes()


def test_a_user_goes_when_the_name_is_typed(browser: Browser, home: ReMe, kept: Memory) -> None:
    browser.get("/inspect/users")
    browser.send("/inspect/user/delete")
    assert "nothing was deleted yet" in browser.page
    counted = browser.page
    assert browser.send("/inspect/user/delete", name="bob") == 422
    assert now(browser, home, kept) == kept
    browser.page = counted
    assert browser.send("/inspect/user/delete", name="ana") == 200
    assert "Everything of this user is erased" in browser.page
    assert browser.call(partial(home.stats, user_id="ana")).memories == 0


def test_an_act_for_another_user_touches_that_one_alone(browser_as: Callable[..., Browser], home: ReMe) -> None:
    browser = browser_as(rights=frozenset(Right))
    ours = browser.call(partial(home.add_memory, "tea", user_id="ana"))
    theirs = browser.call(partial(home.add_memory, "tea", user_id="bob"))
    browser.get("/inspect/memory", id=theirs.memory_id, user="bob")
    browser.send("/inspect/memory/forget")
    browser.send("/inspect/memory/forget")
    assert "bob in space" in browser.page
    assert now(browser, home, ours) == ours
    assert browser.call(partial(home.list_memories, user_id="bob")).memories == ()


def test_a_dead_job_shows_its_failure_and_is_tried_again_or_given_up(browser: Browser, home: ReMe) -> None:
    scope, at = make_scope("space", "ana"), home.clock.now()
    dead = Job(kind="summary", state=JobState.DEAD, error="it broke", raw='{"a": 1}', created_at=at, due_at=at)
    browser.call(partial(home.store.add_jobs, scope, [dead]))
    browser.get("/inspect/jobs")
    assert "it broke" in browser.page
    assert "{&#34;a&#34;: 1}" in browser.page
    browser.send("/inspect/job/retry")
    assert [job.state for job in browser.call(partial(home.list_jobs, user_id="ana"))] == [JobState.PENDING]
    browser.send("/inspect/job/drop")
    assert len(browser.call(partial(home.list_jobs, user_id="ana"))) == 1
    browser.send("/inspect/job/drop")
    assert browser.call(partial(home.list_jobs, user_id="ana")) == []


def test_everything_of_a_user_is_exported(browser: Browser, home: ReMe, kept: Memory) -> None:
    answer = browser.client.get("/inspect/export")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert kept.memory_id in answer.text
