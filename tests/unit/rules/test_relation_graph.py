"""Names that are one, and chains of relations between them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from reme_core.rules import RelationGraph, join_relations, name_key
from reme_core.schema import Relation


def told(text: str) -> Relation:
    """Read "Lea|sister of|Ann"."""
    subject, relation, target = text.split("|")
    return Relation(subject=subject, relation=relation, object=target)


def graph_of(*texts: str) -> RelationGraph[int]:
    graph = RelationGraph[int]()
    for number, text in enumerate(texts):
        graph.add(number, [told(text)])
    return graph


def always(key: int) -> bool:
    return key >= 0


def way(graph: RelationGraph[int], first: str, second: str, *, most: int = 4) -> list[str] | None:
    path = graph.path(graph.find(first, always), graph.find(second, always), always, most=most)
    return None if path is None else [f"{edge.relation}{'' if edge.is_forward else ' (back)'}" for edge in path]


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("  Ann   Lee ", "ann lee"),
        ("Ann's", "ann"),
        ("Ann’s", "ann"),
        ("The Bakery.", "bakery"),
        ("“Rex”", "rex"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("小莉。", "小莉"),
        ("self", "user"),
        ("The user", "user"),
        ("?!", ""),
    ],
)
def test_names_are_compared_without_case_blanks_signs_and_possessives(written: str, key: str) -> None:
    assert name_key(written) == key


def test_an_alias_and_a_first_name_that_one_alone_has_mean_the_same_person() -> None:
    graph = graph_of("Mel|also called|Melanie", "Melanie Reed|works at|Bakery", "Tom Lee|brother of|Mel")
    assert graph.find("mel", always) == graph.find("Melanie Reed", always) == {"mel", "melanie", "melanie reed"}
    assert graph.spelled(graph.find("MEL", always)) == "Melanie Reed"
    assert way(graph, "Tom", "bakery") == ["Tom Lee brother of Mel", "Melanie Reed works at Bakery"]


@pytest.mark.parametrize(
    "others",
    [
        ["Ann Lee|lives in|Graz", "Ann Roth|lives in|Linz"],  # which of the two?
        ["Ann Lee|mother of|Ann"],  # two, who stand in a relation
    ],
)
def test_a_first_name_of_several_or_of_a_relative_stays_a_name_of_its_own(others: Sequence[str]) -> None:
    assert graph_of("Ann|owns|Rex", *others).find("Ann", always) == {"ann"}


def test_a_name_that_is_removed_is_forgotten_with_its_alias() -> None:
    graph = graph_of("Mel|also called|Melanie", "Melanie Reed|owns|Rex")
    graph.remove([1, 7])
    assert graph.find("Melanie", always) == {"mel", "melanie"}
    assert not graph.find("Rex", always)
    graph.remove([0])
    assert not graph.find("Melanie", always)
    assert len(graph) == 0


def test_a_description_finds_whom_it_fits_alone() -> None:
    graph = graph_of("Lea|sister of|Ann", "Tom|brother of|Ann", "Max|brother of|Ann", "Kim|boss of|Lea")
    assert graph.find("Ann's sister", always) == {"lea"}
    assert graph.find("Ann's sister's boss", always) == {"kim"}
    assert not graph.find("Ann's brother", always)
    assert not graph.find("Ann's dentist", always)
    assert graph.near_names("Leo") == ("Lea",)


def test_the_shortest_chain_is_found_in_either_direction_and_within_its_bound() -> None:
    graph = graph_of("Lea|sister of|Ann", "Lea|works at|Bakery", "Kim|owns|Bakery", "Ann|knows|Zoe", "Zoe|knows|Kim")
    forth = ["Lea sister of Ann (back)", "Lea works at Bakery", "Kim owns Bakery (back)"]
    assert way(graph, "Ann", "Kim") in (forth, ["Ann knows Zoe", "Zoe knows Kim"])
    assert way(graph, "Ann", "Kim", most=2) == ["Ann knows Zoe", "Zoe knows Kim"]
    assert way(graph, "Ann", "Kim", most=1) is None
    assert way(graph, "Lea", "Kim") == ["Lea works at Bakery", "Kim owns Bakery (back)"]


def test_a_relation_that_does_not_hold_leads_nowhere() -> None:
    graph = graph_of("Lea|sister of|Ann", "Lea|works at|Bakery")
    assert graph.path(frozenset({"ann"}), frozenset({"bakery"}), lambda key: key != 1, most=4) is None
    assert [item.names for item in graph.reached("Where does Ann's sister work?", lambda key: key != 0)] == [{"ann"}]


def test_a_question_leads_along_the_relations_that_it_names_alone() -> None:
    graph = graph_of("Lea|sister of|Ann", "Tom|boss of|Ann", "Lea|works at|Bakery")
    reached = {min(item.names): item.words for item in graph.reached("Where does Ann's sister work?", always)}
    assert reached == {"ann": {"ann"}, "lea": {"ann", "sister"}, "bakery": {"ann", "sister", "work"}}
    assert [min(item.names) for item in graph.reached("What does Ann like?", always)] == ["ann"]
    assert not graph.reached("What is a good bread?", always)


def test_who_asks_is_the_user() -> None:
    graph = graph_of("Lea|sister of|user")
    assert [min(item.names) for item in graph.reached("Where does my sister live?", always)] == ["user", "lea"]
    assert not graph.reached("Where does her sister live?", always)


def test_names_in_scripts_without_blanks_are_found_in_a_question() -> None:
    graph = graph_of("小莉|妹妹|小安", "小莉|就职于|面包店")
    assert {min(item.names) for item in graph.reached("小安的妹妹住哪里?", always)} == {"小安", "小莉"}


def test_joined_relations_are_those_of_both_once_without_ends_that_are_said_no_more() -> None:
    old = [told("Lea|works at|Bakery"), told("Lea|sister of|user"), told("Lea|lives in|Graz")]
    new = [told("lea|sister of|self"), told("Lea|works at|Theatre")]
    joined = join_relations(old, new, content="Lea, the user's sister, works at the theatre in Graz")
    assert [str(item) for item in joined] == ["lea sister of self", "Lea works at Theatre", "Lea lives in Graz"]
    assert len(join_relations([told(f"Lea|owns|boat {n}") for n in range(20)], [])) == 8


def test_names_without_a_letter_and_endless_descriptions_are_nobody() -> None:
    graph = graph_of("?|owns|!!", "Lea|sister of|Ann")
    assert not graph.find("?", always)
    assert not graph.find("Ann's sister" + "'s sister" * 5000, always)
    assert len(graph) == 1


def test_a_name_that_two_are_called_makes_them_not_one_person() -> None:
    graph = graph_of("Ann|also called|Ann Lee", "Ann|also called|Ann Berg", "Ann Berg|works at|bank")
    assert graph.find("Ann Lee", always) == {"ann lee", "ann"}
    assert way(graph, "Ann Lee", "bank") is None
    graph = graph_of("MSF|also called|Doctors Without Borders", "MSF|also called|Médecins Sans Frontières")
    assert len(graph.find("MSF", always)) == 3
