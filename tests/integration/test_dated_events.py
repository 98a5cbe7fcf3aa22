"""Forty dated events of four people, over, running, ahead and without end: each is found by a question in other words.

Nothing but words ranks them: no vectors, no model that reads. What was extracted is what a model would have written;
the questions are what a person would ask who knows whom it is about and a word of the matter, seldom two.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from reme_core import ReMe
from reme_core.ports import ChatRequest
from reme_core.testing import FixedClock, ScriptedChatModel

NOW = datetime(2024, 3, 1, 9, tzinfo=UTC)
SCOPE: dict[str, Any] = {"user_id": "family"}
FIRST = 5


class Told(NamedTuple):
    """What somebody said on a day, the fact in it with its own time, and what is asked later."""

    who: str
    on: str
    said: str
    fact: str
    since: str
    until: str
    question: str


# fmt: off
EVENTS = [Told(*row) for row in [
    # over
    ("Ana", "2023-06-20", "Back since Sunday! A week of Rome with my sister, and my feet still hurt.",
     "Ana took a short trip to Rome with her sister", "2023-06-12", "2023-06-18", "When was Ana in Rome?"),
    ("Ana", "2023-07-02", "I used to work nights, back at St. Mary's.",
     "Ana worked as a nurse at St. Mary's hospital", "2015", "2019", "At which hospital was Ana employed?"),
    ("Ana", "2023-04-03", "The pottery course is finished, I have eleven crooked bowls to give away.",
     "Ana took pottery classes on Thursdays", "2023-01", "2023-03", "When did Ana learn pottery?"),
    ("Ana", "2023-02-05", "Skating was a bad idea. Plaster up to the elbow.",
     "Ana broke her wrist while skating", "2023-02-04", "2023-02-04", "How did Ana hurt her wrist?"),
    ("Ben", "2023-05-11", "Chemistry, of all things, in Leipzig. I never used it, except for sourdough.",
     "Ben studied chemistry in Leipzig", "2010", "2014", "Which subject did Ben take at university in Leipzig?"),
    ("Ben", "2023-05-14", "Before the bakery there was the truck. Dumplings, two and a half years.",
     "Ben ran a food truck that sold dumplings", "2018-05", "2020-10", "What kind of food came out of Ben's truck?"),
    ("Ben", "2024-01-29", "Turn on the radio, the campaign has just started!",
     "Ben launched an advertising campaign on local radio", "2024-01-29", "2024-01-29",
     "When did the radio spots of Ben begin?"),
    ("Ben", "2023-11-12", "Got the car back on Friday, with a gearbox that costs more than the rest of it.",
     "Ben's car was in the garage for a new gearbox", "2023-11-06", "2023-11-10", "When was Ben without a car?"),
    ("Ben", "2023-03-12", "Ten days of broth and tea, never again.",
     "Ben fasted for ten days", "2023-03-01", "2023-03-10", "How long did Ben go without eating when he fasted?"),
    ("Mira", "2023-08-01", "In Utrecht there were six of us and one bathroom.",
     "Mira lived in a shared flat in Utrecht", "2016-09", "2018-06", "Until when did Mira stay in Utrecht?"),
    ("Mira", "2023-08-09", "That summer I carried turtle eggs up a beach every morning at five.",
     "Mira volunteered at a turtle station in Greece", "2019-07", "2019-08", "In which country did Mira help turtles?"),
    ("Mira", "2023-12-16", "No more spots! The doctor says I may go out again.",
     "Mira had chickenpox", "2023-12-04", "2023-12-15", "When was Mira ill with chickenpox?"),
    ("Mira", "2023-08-15", "Third desk, cello, and always a bar too late.",
     "Mira played the cello in the youth orchestra", "2008", "2013", "What instrument did Mira have in the orchestra?"),
    ("Tom", "2023-01-20", "So that was that, Nordbank is history for me, as of today.",
     "Tom was a banker at Nordbank until he lost his job", "2017", "2023-01-20",
     "When did Tom stop working as a banker?"),
    ("Tom", "2023-08-02", "Half a year on the boat, all around Ireland, and hardly a dry day.",
     "Tom spent a sabbatical sailing around Ireland", "2023-02", "2023-07", "What did Tom do on his sabbatical?"),
    ("Tom", "2023-10-15", "Mother is settled in. Yesterday I drove the van three times.",
     "Tom rented a van to move his mother", "2023-10-14", "2023-10-14", "What did Tom need the van for?"),
    ("Tom", "2023-01-05", "I saw all sixty-four matches in the same pub, they gave me a mug.",
     "Tom watched every match of the world cup in a pub", "2022-11-20", "2022-12-18",
     "Where did Tom see the world cup?"),
    ("Tom", "2023-09-01", "You never saw me smile in school photos, that was the wire.",
     "Tom wore braces on his teeth", "1998", "2001", "How old must Tom have been when he had braces?"),
    # running
    ("Ana", "2023-09-10", "I signed! A year in the studio above the bakery.",
     "Ana rents a studio in Lisbon", "2023-09", "2024-08", "How long may Ana stay in the studio?"),
    ("Ana", "2024-01-03", "Half a year at home with the little one now.",
     "Ana is on parental leave", "2024-01", "2024-06", "Until when is Ana at home because of parental leave?"),
    ("Ana", "2023-07-20", "My licence is still the pink paper one.",
     "Ana holds an old driving licence made of paper", "2012", "2027-05", "When does Ana's licence run out?"),
    ("Ben", "2023-08-05", "Karim started on Monday, he is quicker than me already.",
     "Ben trains an apprentice named Karim", "2023-08", "2026-07", "Who is the apprentice at Ben's?"),
    ("Ben", "2023-05-20", "The oven is paid when I am fifty, says the bank.",
     "Ben pays back a loan for his oven", "2022", "2027", "By what year will Ben be rid of the loan?"),
    ("Mira", "2023-08-20", "Moss, yes. Three years of moss, somebody has to.",
     "Mira writes a doctoral thesis about moss", "2022-10", "2025-09",
     "What is the topic of the thesis that Mira is at?"),
    ("Mira", "2023-10-16", "First session of my seminar today: forty students, twenty chairs.",
     "Mira teaches a seminar on the names of plants", "2023-10", "2024-03", "Which seminar does Mira give this term?"),
    ("Tom", "2023-08-28", "Fourteen eleven-year-olds and one ball. I am hoarse.",
     "Tom coaches the football team of the under-twelves", "2023-08", "2024-06", "Which team has Tom as its coach?"),
    ("Tom", "2023-11-08", "Siobhan says my accent is from nowhere on the island.",
     "Tom takes lessons in Irish from a tutor named Siobhan", "2023-11", "2024-12", "Who teaches Tom Irish?"),
    # ahead
    ("Ana", "2024-01-10", "I got a number for Boston, I can't believe it.",
     "Ana will run the Boston marathon", "2024-04-15", "2024-04-15", "On what date is Ana's marathon?"),
    ("Ben", "2024-02-02", "The second shop: Porto, in the old pharmacy, if the painters keep their word.",
     "Ben opens his second bakery in Porto", "2024-06-20", "2024-06-20",
     "When can one buy bread in Ben's bakery in Porto?"),
    ("Ben", "2024-02-10", "They want me on a stage in Nantes, about rye.",
     "Ben gives a talk about rye at the bread fair in Nantes", "2024-10-05", "2024-10-05",
     "Where will Ben speak about rye?"),
    ("Mira", "2024-01-22", "Kyoto has said yes, one whole autumn of temples and moss.",
     "Mira goes to Kyoto as a guest researcher", "2024-09", "2024-12", "How many months will Mira be in Kyoto?"),
    ("Mira", "2024-02-01", "I must not forget the passport before that, it ends in November.",
     "Mira has a passport that is valid until November 2024", "2014-11", "2024-11",
     "Does Mira have to renew her passport soon?"),
    ("Tom", "2024-02-12", "Keys on the first of May. A garden, at last.",
     "Tom moves into a house in Galway", "2024-05-01", "2024-05-01", "When is Tom moving to Galway?"),
    ("Tom", "2024-02-20", "The knee gets done on the eighteenth, finally.",
     "Tom has knee surgery", "2024-03-18", "2024-03-18", "On which day will Tom's knee be operated on?"),
    # without end
    ("Ana", "2023-02-20", "Pixel sleeps on the sofa, eats on the sofa, is the sofa.",
     "Ana adopted a greyhound named Pixel", "2022-11", "", "What breed is Ana's dog Pixel?"),
    ("Ana", "2023-03-15", "Not that antibiotic for me, they found out the hard way.",
     "Ana is allergic to penicillin", "2020", "", "What is Ana allergic to?"),
    ("Ben", "2023-05-21", "Two years today. She still laughs at my bread jokes.",
     "Ben married Elif in a small town hall", "2021-05-21", "", "When was the wedding of Ben and Elif?"),
    ("Mira", "2023-08-25", "No sausage for me, thanks, not for three years.",
     "Mira became a vegetarian", "2020", "", "Since when is Mira a vegetarian?"),
    ("Mira", "2023-04-30", "The hive survived its first storm, up there.",
     "Mira keeps bees on the roof of her house", "2023-04", "", "Where has Mira put the bees?"),
    ("Tom", "2023-09-05", "We opened the doors yesterday, three flat tyres by noon.",
     "Tom founded a company that repairs bicycles", "2023-09-04", "", "What does the company of Tom do?"),
]]
# fmt: on


def answer(request: ChatRequest) -> str:
    """Extract what the table says of the messages that are shown, and find everything new."""
    shown = request.messages[1].text.splitlines()
    if "<conversation>" in shown:
        lines = [json.loads(line) for line in shown if line.startswith('{"n":')]
        return json.dumps({"facts": [fact for line in lines for fact in facts(line["n"], line["text"])]})
    asked = [json.loads(line) for line in shown if line.startswith('{"fact":')]
    return json.dumps({"decisions": [{"fact": line["fact"], "action": "add"} for line in asked]})


def facts(number: int, text: str) -> list[dict[str, Any]]:
    return [
        {
            "type": "personal",
            "target": event.who,
            "content": event.fact,
            "valid_from": event.since,
            "valid_to": event.until,
            "messages": [number],
        }
        for event in EVENTS
        if event.said == text
    ]


@pytest.fixture
async def family(tmp_path: Path) -> AsyncIterator[ReMe]:
    months = sorted({event.on[:7] for event in EVENTS})
    model = ScriptedChatModel([answer] * (2 * len(months)))  # at most two calls a session
    async with ReMe("space", tmp_path, llm=model, embedding=None, clock=FixedClock(NOW)) as memory:
        for month in months:
            said = sorted((event for event in EVENTS if event.on.startswith(month)), key=lambda event: event.on)
            messages = [
                {"role": "user", "name": event.who, "content": event.said, "created_at": f"{event.on}T18:00:00Z"}
                for event in said
            ]
            await memory.summary(messages, **SCOPE, session_id=month)
        yield memory


async def test_each_of_forty_dated_events_is_among_the_first_five(family: ReMe) -> None:
    assert len(EVENTS) == len({event.fact for event in EVENTS}) == 40
    stored = {memory.content: memory for memory in (await family.list_memories(**SCOPE)).memories}
    assert stored.keys() == {event.fact for event in EVENTS}
    times = Counter(
        "endless" if memory.valid_to is None else "over" if memory.valid_to <= NOW
        else "running" if memory.valid_from <= NOW else "ahead"
        for memory in stored.values()
    )  # fmt: skip
    assert min(times[kind] for kind in ("over", "running", "ahead", "endless")) >= 6
    missed = {}
    for event in EVENTS:
        found = await family.retrieve(event.question, **SCOPE, limit=FIRST)
        if event.fact not in [hit.memory for hit in found.results if hit.layer == "memory"]:
            missed[event.question] = [f"{hit.layer}: {hit.memory}" for hit in found.results]
    assert missed == {}


async def test_what_was_found_shows_its_time_and_what_it_was_said_in(family: ReMe) -> None:
    for event in EVENTS:
        found = await family.retrieve(event.question, **SCOPE, limit=FIRST, layers=["memory"])
        [hit] = [hit for hit in found.results if hit.memory == event.fact]
        [said] = await family.get_messages(list(hit.message_ids), **SCOPE)
        assert said.message.text == event.said
        assert [hit.valid_from_precision, hit.valid_to_precision] == [
            {0: "exact", 4: "year", 7: "month", 10: "day"}[len(part)] for part in (event.since, event.until)
        ]
