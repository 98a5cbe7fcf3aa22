"""`reme diff`: what changed, for people and for programs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reme_core.cli.changes import moment
from reme_core.errors import InvalidInputError
from tests.unit.cli.conftest import Reme

NOW = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("7d", datetime(2026, 11, 16, 9, 30, tzinfo=UTC)),
        ("12h", datetime(2026, 11, 22, 21, 30, tzinfo=UTC)),
        ("2w", datetime(2026, 11, 9, 9, 30, tzinfo=UTC)),
        ("yesterday", datetime(2026, 11, 22, tzinfo=UTC)),
        ("Today", datetime(2026, 11, 23, tzinfo=UTC)),
        ("2026-11-01", "2026-11-01"),
    ],
)
def test_times_are_told_from_now(text: str, meant: datetime | str) -> None:
    assert moment(text, NOW, "--since") == meant


def test_a_time_before_all_calendars_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="--since: 999999w ago"):
        moment("999999w", NOW, "--since")


def test_diff_prints_what_changed_by_target_with_the_run_to_undo(reme: Reme) -> None:
    tea = reme("add", "Ana likes tea", "--target", "Ana", "--json").value["memory_id"]
    boat = reme("add", "Rui has a boat", "--target", "Rui", "--json").value["memory_id"]
    done = reme("diff")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert (lines[0], lines[2]) == ("personal / Ana: 1 change", "    Ana likes tea")
    assert lines[1].endswith("added  by user")
    assert lines[3].startswith(f"    id {tea}  run ")
    run_id = lines[3].split("run ")[1]
    assert reme("undo", run_id).code == 0
    assert "likes tea" not in reme("diff").out
    assert "Ana likes tea" in reme("diff", "--every").out
    assert [item["memory_id"] for item in reme("diff", "--target", "Rui", "--json").value["changes"]] == [boat]


def test_diff_without_changes_ends_as_a_search_that_finds_nothing(reme: Reme) -> None:
    reme("add", "Ana likes tea")
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    done = reme("diff", "--since", tomorrow)
    assert (done.code, done.out, done.err) == (1, "", "nothing changed\n")
    assert reme("diff", "--until", "yesterday", "--json").value["changes"] == []
    assert reme("diff", "--type", "tool").code == 1


def test_diff_goes_on_where_a_page_ended_and_refuses_what_it_cannot_read(reme: Reme) -> None:
    for number in range(3):
        reme("add", f"fact {number}")
    done = reme("diff", "--limit", "2")
    assert "fact 2" in done.out
    what, *rest_of_it = done.err.split()
    assert (what, rest_of_it[0], rest_of_it[1][-1], rest_of_it[2]) == ("more:", "--since", "Z", "--cursor")
    rest = reme("diff", "--limit", "2", *rest_of_it)
    assert ("fact 0" in rest.out, "fact 1" in rest.out, rest.err) == (True, False, "")
    assert reme("diff", "--since", "soon").code == 2
    assert reme("diff", "--user", "bob").out == ""


def test_list_shows_what_was_known_at_a_time(reme: Reme) -> None:
    reme("add", "Ana likes tea")
    assert reme("list", "--known-at", "2020-01-01").out == ""
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert "Ana likes tea" in reme("list", "--known-at", tomorrow).out
    assert reme("list", "--layer", "message", "--known-at", tomorrow).code == 2


@pytest.mark.parametrize("told", ["tomorrow", "30m", "-1d", "7 days", "nonsense"])
def test_a_time_that_is_none_is_refused_with_the_forms_that_are(reme: Reme, told: str) -> None:
    reme("add", "Ana likes tea")
    done = reme("diff", f"--since={told}")
    assert done.code == 2
    assert "7d, 12h, 2w, yesterday or today" in done.err
