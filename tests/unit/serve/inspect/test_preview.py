"""The dry run of a pasted conversation: what would be remembered is shown, and nothing is kept but its cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from reme_core import ReMe
from reme_core.schema import Job, JobState, make_scope
from reme_core.serve.access import Right
from tests.support.rule_model import RuleModel
from tests.unit.serve.inspect.conftest import Browser
from tests.unit.serve.inspect.test_pages import check_markup


@pytest.fixture
def browser(browser_as: Callable[..., Browser], tmp_path: Path) -> Iterator[Browser]:
    """Read-only, as `reme inspect` is, over a memory without a model, beside one that previews."""
    previewing = ReMe("space", tmp_path, llm=RuleModel(), embedding=None)
    made = browser_as(write=False, previewing=previewing)
    yield made
    made.call(partial(previewing.close, finish_jobs=False))


def test_what_would_be_remembered_is_shown_and_not_kept(browser: Browser, home: ReMe) -> None:
    now, scope = home.clock.now(), make_scope("space", "ana")
    browser.call(partial(home.add_memory, "Alice lives in Berlin", user_id="ana", memory_target="Alice"))
    waits = Job(kind="summary", payload={"session_id": "s"}, created_at=now, due_at=now)
    browser.call(partial(home.store.add_jobs, scope, [waits]))
    before = browser.call(partial(home.stats, user_id="ana"))
    browser.get("/inspect/preview")
    text = "User: Alice moved to Lisbon\nAssistant: Lovely.\nUser: Bob likes <script>boom()</script> tea"
    assert browser.send("/inspect/preview", text=text) == 200
    check_markup(browser.page)
    assert '<span class="badge">replaced</span>' in browser.page
    assert "<del>lives</del>" in browser.page
    assert "<ins>Lisbon</ins>" in browser.page
    assert "compared with:" in browser.page
    assert "Bob likes &lt;script&gt;" in browser.page
    assert browser.call(partial(home.stats, user_id="ana")) == before
    assert [job.state for job in browser.call(partial(home.list_jobs, user_id="ana"))] == [JobState.PENDING]
    assert {cost.purpose for cost in browser.call(partial(home.costs, user_id="ana"))} == {"preview"}


def test_it_takes_the_right_to_write_and_somebody_who_says_something(
    browser: Browser, browser_as: Callable[..., Browser], home: ReMe
) -> None:
    browser.get("/inspect/preview")
    assert browser.send("/inspect/preview", text=" ") == 422
    assert "text: is missing" in browser.page
    reader = browser_as(rights=frozenset({Right.READ}), of=browser)
    reader.get("/inspect/preview")
    assert "takes the right to write" in reader.page
    csrf = reader.page.partition('name="csrf" value="')[2].partition('"')[0]
    assert reader.client.post("/inspect/preview", data={"csrf": csrf, "text": "User: tea"}).status_code == 403
    assert browser.call(partial(home.costs, user_id="ana")) == []


def test_without_a_model_the_page_says_what_to_set(browser_as: Callable[..., Browser]) -> None:
    browser = browser_as()
    assert browser.get("/inspect/preview") == 200
    assert "There is no chat model here" in browser.page
