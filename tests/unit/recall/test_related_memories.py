"""Questions that describe whom they mean: what answers them is found along the relations of other memories."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from reme_core import ReMe
from reme_core.testing import HashedEmbedder

ANA: dict[str, Any] = {"user_id": "ana"}

# What is told, with its relations.
WORLD: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    ("Lea is the sister of Ann", (("Lea", "sister of", "Ann"),)),
    ("Ann is married to Tom Berg", (("Ann", "wife of", "Tom Berg"),)),
    ("Bruno is the father of Tom", (("Bruno", "father of", "Tom"),)),
    ("Rex is Lea's dog", (("Rex", "dog of", "Lea"),)),
    ("Melanie has a daughter, Ida", (("Ida", "daughter of", "Melanie"),)),
    ("Melanie is called Mel by her friends", (("Mel", "also called", "Melanie"),)),
    ("Kim is the boss of Tom at the shipyard", (("Kim", "boss of", "Tom"), ("Tom", "works at", "the shipyard"))),
    ("Lea works at the bakery", (("Lea", "works at", "the bakery"),)),
    ("Herr Kranz owns the bakery", (("Herr Kranz", "owns", "the bakery"),)),
    ("Zoe is the neighbour of Melanie", (("Zoe", "neighbour of", "Melanie"),)),
    ("Ida plays in the Blue Owls", (("Ida", "member of", "the Blue Owls"),)),
    ("Omar is the teacher of Ida", (("Omar", "teacher of", "Ida"),)),
    ("Nora is the user's sister", (("Nora", "sister of", "user"),)),
    ("The user's dentist is Dr. Falk", (("Dr. Falk", "dentist of", "user"),)),
    ("Paul is the cousin of Zoe", (("Paul", "cousin of", "Zoe"),)),
)
# What is asked, with what answers it: none of these names whom the question names.
ASKED = (
    ("What is the favourite food of Ann's sister?", "Lea loves oysters, her favourite food"),
    ("Which instrument does Ann's husband Tom's boss play?", "Kim plays the cello, an old instrument"),
    ("Where did the father of Ann's husband grow up?", "Bruno grew up in Trieste"),
    ("What is the dog of Ann's sister afraid of?", "Rex is afraid of thunder"),
    ("What does Mel's daughter collect?", "Ida collects stamps from Japan"),
    ("Which sport does Tom's boss do?", "Kim does fencing as a sport"),
    ("Who founded the place where Ann's sister works?", "The bakery was founded in 1901 by the Kranz family"),
    ("Where does the owner of the bakery live?", "Herr Kranz lives above the old post office"),
    ("What did Melanie's neighbour paint?", "Zoe painted a large mural of herons"),
    ("When does the team of Mel's daughter train?", "The Blue Owls train on Thursdays"),
    ("Which language does the teacher of Ida speak?", "Omar speaks Arabic, the language of his parents"),
    ("Where is my sister on holiday?", "Nora is on holiday in Crete"),
    ("On which street is my dentist?", "Dr. Falk has rooms on Linden Street"),
    ("What is Zoe's cousin allergic to?", "Paul is allergic to walnuts"),
    ("How old is the sister of Tom's wife?", "Lea is 34 years old"),
    ("What car does my sister drive?", "Nora drives a yellow car"),
    ("What does the cousin of Mel's neighbour study?", "Paul studies law in Vienna"),
    ("When was Tom's father born?", "Bruno was born in 1948"),
    ("Which book did Mel's daughter read?", "Ida read a book about whales"),
    ("What does Ann's sister's dog eat?", "Rex eats fish on Fridays"),
)
# Of others the same is told, as far as words go.
STRANGERS = ("Gil", "Hana", "Ivo", "Jun", "Olga", "Pia", "Rita", "Sven")
SUBJECTS = ("Lea", "Kim", "Bruno", "Rex", "Ida", "The bakery", "Herr Kranz", "Zoe", "The Blue Owls", "Omar", "Nora")
OTHERS = tuple(
    answer.replace(subject, stranger)
    for _, answer in ASKED
    for subject in (*SUBJECTS, "Dr. Falk", "Paul")
    for stranger in STRANGERS
    if answer.startswith(subject)
)


async def place_of(memory: ReMe, question: str, answer: str) -> int | None:
    found = await memory.retrieve(query=question, **ANA, limit=5)
    told = [hit.memory for hit in found.results]
    return told.index(answer) if answer in told else None


async def told_by(memory: ReMe, asked: dict[str, Any]) -> set[str]:
    return {hit.memory for hit in (await memory.retrieve(**asked)).results}


@pytest.fixture(params=["words", "vectors"])
def embedder(request: pytest.FixtureRequest) -> HashedEmbedder | None:
    return HashedEmbedder() if request.param == "vectors" else None


async def memory_of(folder: Path, embedder: HashedEmbedder | None, *, relations: bool) -> ReMe:
    memory = ReMe("space", folder, llm=None, embedding=embedder)
    world = [{"content": text, "relations": told if relations else ()} for text, told in WORLD]
    plain = [{"content": text} for text in (*(answer for _, answer in ASKED), *OTHERS)]
    told = [*world, *plain]
    random.Random(7).shuffle(told)
    await memory.add_memories([{**one, "memory_id": f"m{place:03}"} for place, one in enumerate(told)], **ANA)
    return memory


async def test_twenty_questions_of_two_steps_are_answered_by_relations_and_mostly_not_without(
    tmp_path: Path, embedder: HashedEmbedder | None
) -> None:
    found = {}
    for relations in (True, False):
        memory = await memory_of(tmp_path / str(relations), embedder, relations=relations)
        places = {question: await place_of(memory, question, answer) for question, answer in ASKED}
        found[relations] = {question for question, place in places.items() if place is not None}
        await memory.close()
    assert len(found[True]) >= 19  # "team" means nothing of "member of"
    assert len(found[False]) <= 9


async def test_what_a_relation_leads_to_leads_the_answer_and_lifts_what_was_said(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        said = [{"role": "user", "name": "Ana", "content": text} for text in ("Lea has a stall now!", "I bake at work")]
        await memory.summary(messages=said, **ANA)
        [first, _] = (await memory.find_messages(**ANA)).messages
        source = {"message_ids": [first.message.message_id]}
        job = {"content": "Lea works at the market", "relations": [("Lea", "works at", "market")], "sources": [source]}
        sister = {"content": "Lea is Ann's sister", "relations": [("Lea", "sister of", "Ann")]}
        await memory.add_memories([job, sister, {"content": "Gil works at the port"}], **ANA)
        found = await memory.retrieve(query="Where does Ann's sister work?", **ANA, limit=4)
        told = [hit.memory for hit in found.results]
        assert set(told[:2]) == {"Lea works at the market", "Lea is Ann's sister"}
        assert "Lea has a stall now!" in told
        plain = await memory.retrieve(query="Who works at the port?", **ANA, limit=1)
        assert [hit.memory for hit in plain.results] == ["Gil works at the port"]


async def test_relations_of_replaced_memories_and_of_other_users_lead_nowhere(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        old = await memory.add_memory("Lea is Ann's boss", **ANA, relations=[("Lea", "boss of", "Ann")])
        await memory.add_memory("Kim is Ann's boss", user_id="bob", relations=[("Kim", "boss of", "Ann")])
        await memory.add_memories([{"content": f"{name} lives in {name}town"} for name in ("Lea", "Kim", "Zoe")], **ANA)
        asked = {"query": "Where does the boss of Ann live?", "limit": 2, **ANA}
        assert await told_by(memory, asked) == {"Lea is Ann's boss", "Lea lives in Leatown"}
        new = await memory.supersede_memory(
            old.memory_id, "Zoe is Ann's boss", **ANA, relations=[("Zoe", "boss of", "Ann")]
        )
        assert await told_by(memory, asked) == {"Zoe is Ann's boss", "Zoe lives in Zoetown"}
        assert "Zoe lives in Zoetown" not in await told_by(memory, {**asked, "as_of": old.valid_from})
        [event] = await memory.history(new.memory_id, **ANA)
        await memory.undo(str(event.run_id), **ANA)
        assert await told_by(memory, asked) == {"Lea is Ann's boss", "Lea lives in Leatown"}


async def test_relations_of_a_class_that_is_not_asked_for_lead_nowhere(tmp_path: Path) -> None:
    async with ReMe("space", tmp_path, llm=None, embedding=None) as memory:
        poison = [("Kim", "boss of", "Ann")]
        await memory.add_memory("Kim is Ann's boss", **ANA, relations=poison, trust="web")
        await memory.add_memories([{"content": f"{name} lives in a town"} for name in ("Kim", "Zoe")], **ANA)
        asked = {"query": "Where does the boss of Ann live?", **ANA}
        scores = [
            {hit.memory: hit.score for hit in (await memory.retrieve(**asked, trust=trust)).results}
            for trust in (None, "user")
        ]
        kim, zoe = "Kim lives in a town", "Zoe lives in a town"
        assert [found[kim] > found[zoe] for found in scores] == [True, False]
