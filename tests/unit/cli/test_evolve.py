"""`reme evolve`: the difference first, then one run."""

from __future__ import annotations

from tests.unit.cli.conftest import Reme


def test_evolve_shows_the_difference_and_writes_it_only_when_asked(reme: Reme) -> None:
    stays = reme("add", "Ana likes tea, too", "--json").value["memory_id"]
    goes = reme("add", "Ana likes tea too", "--json").value["memory_id"]
    shown = reme("evolve", "--no-llm")
    assert (shown.code, shown.err) == (0, "nothing is written without --apply\n")
    lines = [line.split(") ", 1)[-1] for line in shown.out.splitlines()]
    assert lines == [
        "personal / self:",
        f"Ana likes tea, too [{stays}]",
        f"Ana likes tea too [{goes}]",
        f"Ana likes tea, too [{stays}]",
    ]
    assert len(reme("list", "--json").value["memories"]) == 2
    done = reme("evolve", "--apply")
    run_id = done.out.splitlines()[-1].split()[3].rstrip(";")
    assert [item["memory_id"] for item in reme("list", "--json").value["memories"]] == [stays]
    assert reme("undo", run_id).code == 0
    assert len(reme("list", "--json").value["memories"]) == 2


def test_evolve_does_not_promise_to_write_what_it_only_lists(reme: Reme) -> None:
    reme("add", "I bought a red bicycle")
    reme("add", "Alice bought a red bicycle in May")
    for arguments in (("--no-llm",), ("--no-llm", "--apply")):
        done = reme("evolve", *arguments)
        assert (done.code, done.out.splitlines()[0]) == (0, "likely the same: in nearly the same words")
        assert done.err == "nothing is to be written: what is listed stays as it is\n"


def test_a_memory_that_was_joined_says_so_and_reads_neither_as_replaced_nor_as_over(reme: Reme) -> None:
    stays = reme("add", "Ana likes tea, too", "--json").value["memory_id"]
    goes = reme("add", "Ana likes tea too", "--json").value["memory_id"]
    reme("evolve", "--apply", "--no-llm")
    for told in (reme("show", goes).out, reme("list", "--superseded").out):
        assert f"joined into {stays}" in told
        assert "until" not in told
    assert "added, and joined with others  by evolve" in reme("diff").out
    every = [line for line in reme("diff", "--every").out.splitlines() if line.endswith("by evolve")]
    assert [line.split("  ")[1] for line in every] == ["joined into another", "joined with others"]


def test_evolve_ends_as_a_search_that_finds_nothing_where_all_is_in_order(reme: Reme) -> None:
    reme("add", "Ana likes tea")
    done = reme("evolve")
    assert (done.code, done.out, done.err) == (1, "", "nothing to consolidate\n")
    assert reme("evolve", "--json", "--apply").value["merges"] == []


def test_a_service_without_a_model_has_no_schedule_and_a_time_that_is_none_is_refused(reme: Reme) -> None:
    done = reme("serve", "--evolve-every", "7d")
    assert (done.code, "--evolve-every needs a chat model" in done.err) == (2, True)
    done = reme("serve", "--evolve-every", "weekly")
    assert (done.code, "wanted a time such as 12h, 7d or 2w" in done.err) == (2, True)
