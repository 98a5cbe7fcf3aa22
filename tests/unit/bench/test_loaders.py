"""Each loader reads the form in which its data set is published; the contents here are invented."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from reme_bench.conversations import Conversation
from reme_bench.datasets import SOURCES, WrongFileError, load, source
from reme_bench.datasets.dialogues import labels
from reme_bench.evidence import Question

from reme_core.errors import InvalidInputError


def read(name: str, path: Path, limit: int | None = None) -> list[Conversation]:
    return list(load(SOURCES[name], path, limit))


def written(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def by_id(talk: Conversation) -> dict[str, Question]:
    return {question.question_id: question for question in talk.questions}


LOCOMO = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ada",
        "speaker_b": "Bo",
        "session_10_date_time": "12:05 am on 3 June, 2023",
        "session_10": [{"speaker": "Ada", "dia_id": "D10:1", "text": "The kiln broke."}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            {"speaker": "Ada", "dia_id": "D2:1", "text": "I sold my first bowl!"},
            {
                "speaker": "Bo",
                "dia_id": "D2:2",
                "text": "Look at mine.",
                "img_url": ["https://example.org/bowl.jpg"],
                "blip_caption": "a photo of a blue bowl",
                "query": "bowl",
            },
        ],
    },
    "qa": [
        {"question": "What did Ada sell?", "answer": "a bowl", "evidence": ["D2:1; D2:2"], "category": 1},
        {"question": "When did the kiln break?", "answer": 2023, "evidence": ["D:10:01"], "category": 2},
        {"question": "What did Bo sell?", "adversarial_answer": "a bowl", "evidence": ["D2:1"], "category": 5},
        {"question": "Nobody labelled this?", "answer": "yes", "evidence": [], "category": 4},
    ],
    "event_summary": {},
    "observation": {},
    "session_summary": {},
}


def test_locomo_is_read_as_published(tmp_path: Path) -> None:
    [talk] = read("locomo", written(tmp_path / "locomo10.json", [LOCOMO]))
    assert [(turn.message_id, turn.role, turn.name, turn.created_at) for turn in talk.turns] == [
        ("conv-1/D2:1", "user", "Ada", "2023-05-08T13:56:00"),
        ("conv-1/D2:2", "assistant", "Bo", "2023-05-08T13:56:00"),
        ("conv-1/D10:1", "user", "Ada", "2023-06-03T00:05:00"),
    ]
    assert talk.turns[1].text == "Look at mine. [shares a photo of a blue bowl]"
    first, second, third = talk.questions  # the unlabelled one measures nothing
    assert (first.category, list(first.evidence), first.gold) == ("multi-hop", ["conv-1/D2:1", "conv-1/D2:2"], "a bowl")
    assert (second.category, list(second.evidence), second.gold) == ("temporal", ["conv-1/D10:1"], "2023")
    assert (third.category, dict(third.evidence), third.answerable) == ("5", {}, False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("D1:3", ["D1:3"]),
        ("D8:6; D9:17", ["D8:6", "D9:17"]),
        ("D9:1 D4:4", ["D9:1", "D4:4"]),
        ("D:11:26", ["D11:26"]),
        ("D30:05.", ["D30:5"]),
        ("D2:4-6", ["D2:4", "D2:5", "D2:6"]),
        ("D2:4 - D2:6", ["D2:4", "D2:5", "D2:6"]),
        ("D2:4-D3:1", ["D2:4", "D3:1"]),
        ("D", []),
        ("D1:1-999999999999", ["D1:1"]),
    ],
)
def test_a_label_is_read_however_it_is_written(text: str, told: list[str]) -> None:
    assert list(labels([text])) == told


REALTALK = {
    "name": {"speaker_1": "Cy", "speaker_2": "Di"},
    "session_1_date_time": "29.12.2023",
    "session_1": [
        {"clean_text": "Hey!", "speaker": "Cy", "date_time": "29.12.2023, 22:10:05", "dia_id": "D1:1"},
        {
            "text": "",
            "speaker": "Di",
            "date_time": "29.12.2023, 22:11:00",
            "dia_id": "D1:2",
            "blip_caption": "a photo of a dog",
        },
        {"clean_text": "", "speaker": "Di", "date_time": "29.12.2023, 22:12:00", "dia_id": "D1:3"},
    ],
    "events_session_1": {"Cy": []},
    "qa": [
        {"question": "Whose dog is it?", "answer": "Di's", "evidence": ["D1:1-3"], "category": 3},
        {"question": "What was sent without a word?", "answer": "?", "evidence": ["D1:3"], "category": 1},
    ],
}


def test_realtalk_is_read_chat_by_chat_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("Chat_10_Cy_Di", "Chat_2_Cy_Di"):
        written(tmp_path / f"{name}.json", REALTALK)
    talks = read("realtalk", tmp_path)
    assert [talk.name for talk in talks] == ["Chat_2_Cy_Di", "Chat_10_Cy_Di"]
    assert [(turn.role, turn.text, turn.created_at) for turn in talks[0].turns] == [
        ("user", "Hey!", "2023-12-29T22:10:05"),
        ("assistant", "[shares a photo of a dog]", "2023-12-29T22:11:00"),
    ]
    # What nobody can find, since it has no text, is no evidence.
    [question] = talks[0].questions
    assert (question.category, list(question.evidence)) == ("commonsense", ["Chat_2_Cy_Di/D1:1", "Chat_2_Cy_Di/D1:2"])
    assert len(read("realtalk", tmp_path / "Chat_2_Cy_Di.json")) == 1


def said(number: int, role: str, text: str, anchor: str | None = None) -> dict[str, Any]:
    more = {"time_anchor": anchor, "index": "1,1", "question_type": "main_question"} if anchor else {}
    return {"role": role, "id": number, "content": text, **more}


BATCHES = [
    [
        [said(0, "user", "My lease ends on 31 August. ->-> 1,1", "March-15-2024"), said(1, "assistant", "Noted.")],
        [said(2, "user", "It rains. ->-> 1,2")],
    ],
    [[said(3, "user", "My lease was prolonged to December.", "April-05-2024")]],
]
PROBES = {
    "abstention": [{"question": "My salary?", "ideal_response": "Nothing was said.", "rubric": ["Nothing was said"]}],
    "knowledge_update": [
        {
            "question": "When does my lease end?",
            "answer": "December",
            "source_chat_ids": {"original_info": [0], "updated_info": [3]},
            "rubric": ["LLM response should state: December"],
        }
    ],
    "contradiction_resolution": [
        {"question": "Do I rent?", "ideal_answer": "Unclear", "source_chat_ids": {"first_statement": [0], "b": 2}}
    ],
    "instruction_following": [{"question": "Weather?", "source_chat_ids": [2, 2], "rubric": ["should say: rain"]}],
}


def beam(folder: Path, chat: Any, name: str = "chat.json") -> Path:
    written(folder / "probing_questions" / "probing_questions.json", PROBES)
    return written(folder / name, chat)


@pytest.mark.parametrize("downloaded", [False, True])
def test_beam_is_read_as_in_its_repository_and_as_its_script_downloads_it(tmp_path: Path, downloaded: bool) -> None:
    numbered = [{"batch_number": place, "turns": turns} for place, turns in enumerate(BATCHES, 1)]
    flat = [[message for turn in turns for message in turn] for turns in BATCHES]
    beam(tmp_path / "100K" / "7", flat if downloaded else numbered)
    [talk] = read("beam-100k", tmp_path / "100K")
    assert [(turn.message_id, turn.session_id, turn.text, turn.created_at) for turn in talk.turns] == [
        ("beam-7/0", "beam-7/1", "My lease ends on 31 August.", "2024-03-15T00:01:00"),
        ("beam-7/1", "beam-7/1", "Noted.", "2024-03-15T00:02:00"),
        ("beam-7/2", "beam-7/1", "It rains.", "2024-03-15T00:03:00"),
        ("beam-7/3", "beam-7/2", "My lease was prolonged to December.", "2024-04-05T00:01:00"),
    ]
    asked = by_id(talk)
    update = asked["beam-7/knowledge_update/0"]
    assert (update.change, list(update.said_at)) == ("update", ["beam-7/0", "beam-7/3"])
    assert (asked["beam-7/contradiction_resolution/0"].change, update.gold) == ("contradiction", "December")
    assert not asked["beam-7/abstention/0"].answerable
    assert asked["beam-7/instruction_following/0"].gold == "should say: rain"


@pytest.mark.parametrize("marker", [" ->-> 1,1", " ->-> 2,N/A", "\n->-> 5,14)", "->-> 2,22, 24\n", " ->->"])
def test_what_the_generator_of_beam_left_is_no_part_of_a_message(tmp_path: Path, marker: str) -> None:
    beam(tmp_path / "1", [{"turns": [[said(0, "user", f"f(x) -> 2, N/A?{marker}")]]}])
    assert read("beam-100k", tmp_path)[0].turns[0].text == "f(x) -> 2, N/A?"


def test_a_batch_of_beam_begins_on_its_own_day_where_its_first_message_has_none(tmp_path: Path) -> None:
    days = [{"time_anchor": "March-15-2024", "turns": [[said(0, "user", "Hi."), said(1, "user", "Yes.")]]}]
    days += [{"time_anchor": "March-15-2024", "turns": [[said(2, "user", "Late.", "April-05-2024")]]}]
    beam(tmp_path / "1", days)
    times = [turn.created_at for turn in read("beam-500k", tmp_path)[0].turns]
    assert times == ["2024-03-15T00:01:00", "2024-03-15T00:02:00", "2024-04-05T00:01:00"]


def test_beam_reads_chats_by_number_and_the_cut_one_where_there_are_two(tmp_path: Path) -> None:
    for number in ("10", "2"):
        beam(tmp_path / number, [{"batch_number": 1, "turns": BATCHES[0]}])
    beam(tmp_path / "2", [{"batch_number": 1, "turns": BATCHES[0][:1]}], "chat_trunecated.json")
    assert [(talk.name, len(talk.turns)) for talk in read("beam-500k", tmp_path)] == [("beam-2", 2), ("beam-10", 3)]
    assert [talk.name for talk in read("beam-500k", tmp_path / "10")] == ["beam-10"]


def longmemeval(question_id: str = "a1", **more: Any) -> dict[str, Any]:
    return {
        "question_id": question_id,
        "question_type": "knowledge-update",
        "question": "How many bikes do I have?",
        "answer": 3,
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_dates": ["2023/05/25 (Thu) 10:00", "2023/05/20 (Sat) 02:21"],
        "haystack_session_ids": ["answer_2", "answer_1"],
        "haystack_sessions": [
            [{"role": "user", "content": "I bought a third bike.", "has_answer": True}],
            [
                {"role": "user", "content": "I have two bikes.", "has_answer": True},
                {"role": "assistant", "content": "Fine."},
            ],
        ],
        "answer_session_ids": ["answer_1", "answer_2"],
        **more,
    }


def test_longmemeval_is_read_as_a_conversation_a_question_in_the_order_of_times(tmp_path: Path) -> None:
    talks = read("longmemeval", written(tmp_path / "s.json", [longmemeval(), longmemeval("b2_abs")]))
    assert [turn.text for turn in talks[0].turns] == ["I have two bikes.", "Fine.", "I bought a third bike."]
    [question] = talks[0].questions
    assert dict(question.said_at) == {"a1/0:0": "2023-05-20T02:21:00", "a1/1:0": "2023-05-25T10:00:00"}
    assert (question.gold, question.change, question.asked_at) == ("3", "update", "2023-05-30T23:40:00")
    [other] = talks[1].questions
    assert (other.category, other.answerable, dict(other.evidence)) == ("abstention", False, {})


def test_longmemeval_counts_sessions_where_no_turn_is_labelled(tmp_path: Path) -> None:
    told = (["Third bike."], ["Two.", "Bikes."])
    sessions = [[{"role": "user", "content": text} for text in texts] for texts in told]
    [talk] = read("longmemeval", written(tmp_path / "s.json", [longmemeval(haystack_sessions=sessions)]))
    [question] = talk.questions
    assert dict(question.evidence) == {"a1/0": "Two.\nBikes.", "a1/1": "Third bike."}
    assert question.labels(["a1/0:1", "a1/1:0", "x"]) == ["a1/0", "a1/1", "x"]


def session(day: int, texts: list[str], memories: list[str], questions: list[Any]) -> dict[str, Any]:
    at = f"Dec {day}, 2025, 06:11:23"
    dialogue = [
        {"role": role, "content": text, "timestamp": at, "dialogue_turn": 0}
        for role, text in zip(("user", "assistant"), texts, strict=True)
    ]
    points = [{"index": 1, "memory_content": memory, "memory_type": "Event Memory"} for memory in memories]
    return {"start_time": at, "end_time": at, "dialogue": dialogue, "memory_points": points, "questions": questions}


def test_halumem_counts_the_session_that_a_memory_comes_of(tmp_path: Path) -> None:
    old, new = "Eli lives in Rome.", "Eli moved to Oslo."
    update = {
        "question": "Where does Eli live?",
        "answer": "Oslo",
        "evidence": [{"memory_content": old}, {"memory_content": new}],
        "question_type": "Dynamic Update",
    }
    premise = {"question": "Why Paris?", "answer": "?", "evidence": [{"memory_content": new}]}
    premise["question_type"] = "Memory Conflict"
    never = {"question": "Middle name?", "answer": "Unknown.", "evidence": [], "question_type": "Memory Boundary"}
    user = {
        "uuid": "u",
        "persona_info": "Name: Eli; Gender: male",
        "sessions": [
            session(1, ["I live in Rome.", "Nice."], [old], []),
            session(2, ["I moved to Oslo!", "Cold."], [new], [update, premise, never]),
            {"dialogue": session(3, ["2+2?", "4"], [], [])["dialogue"], "is_generated_qa_session": True},
            {"dialogue": [{"role": "user", "content": "Of no time."}], "is_generated_qa_session": True},
        ],
    }
    path = tmp_path / "HaluMem-Medium.jsonl"
    path.write_text(f"{json.dumps(user)}\n{json.dumps({**user, 'uuid': 'v'})}\n")
    first, second = read("halumem", path)
    assert (second.name, len(first.turns), first.turns[-1].created_at) == ("v", 7, None)
    asked, conflict, boundary = first.questions
    assert (conflict.change, list(conflict.evidence)) == (None, ["u/1"])
    assert asked.asked_at == "2025-12-03T06:11:23"
    # Of the memory, the words that its session says.
    assert dict(asked.evidence) == {"u/0": "lives Rome.", "u/1": "moved Oslo."}
    assert asked.labels(["u/1:1", "u/2:0"]) == ["u/1", "u/2:0"]
    assert (asked.change, asked.said_at["u/1"], boundary.answerable) == ("update", "2025-12-02T06:11:23", False)


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "own"])
def test_another_file_is_refused_with_what_was_wanted_and_found(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "other.json", [{"sessions": [], "questions": []}])
    with pytest.raises(WrongFileError, match=r"wanted .* found .* get ") as caught:
        read(name, path)
    assert SOURCES[name].title in str(caught.value)
    assert isinstance(caught.value, InvalidInputError)


@pytest.mark.parametrize("content", ["", "no JSON", "[]", '[{"sample_id": "1", '])
def test_a_file_that_is_cut_off_or_empty_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "locomo10.json"
    path.write_text(content)
    with pytest.raises(WrongFileError, match=r"no JSON|no conversation"):
        read("locomo", path)


def test_a_chat_without_a_session_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "locomo10.json", [{**LOCOMO, "conversation": {"speaker_a": "Ada", "sessions": []}}])
    with pytest.raises(WrongFileError, match="no session_1 in 'conv-1'"):
        read("locomo", path)


def test_sessions_go_by_their_number_however_it_is_written(tmp_path: Path) -> None:
    chat = {f"session_{name}": [{"speaker": "A", "dia_id": f"D{int(name)}:1", "text": name}] for name in ("10", "02")}
    [talk] = read("locomo", written(tmp_path / "l.json", [{"sample_id": "1", "conversation": chat, "qa": []}]))
    assert [turn.text for turn in talk.turns] == ["02", "10"]


MESSAGES = [{"message_id": name, "role": "user", "content": name} for name in "ab"]
QUESTIONS = [{"question": "?", "evidence": [name]} for name in "ab"]
OWN = {"sessions": [{"session_id": "s", "messages": MESSAGES}], "questions": QUESTIONS}


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("own", [OWN, {"user_id": "0", **OWN}], "two conversations '0'"),
        ("own", [{**OWN, "sessions": OWN["sessions"] * 2}], "2 messages with the id '0/a'"),
        ("own", [{**OWN, "questions": [*QUESTIONS, {**QUESTIONS[0], "question_id": "1"}]}], "2 questions"),
        ("locomo", [LOCOMO, LOCOMO], "two conversations 'conv-1'"),
    ],
)
def test_names_that_repeat_are_refused_since_labels_go_by_them(
    tmp_path: Path, name: str, content: Any, found: str
) -> None:
    with pytest.raises(WrongFileError, match=found):
        read(name, written(tmp_path / "file.json", content))


@pytest.mark.parametrize("name", ["own", "locomo", "halumem", "realtalk"])
def test_a_file_nested_beyond_reason_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "deep.json"
    path.write_text('{"a":' * 50_000)
    with pytest.raises(WrongFileError, match=r"no JSON|recursion"):
        read(name, path)


def test_a_mark_of_the_byte_order_before_a_file_is_passed_over(tmp_path: Path) -> None:
    for name, content in (("own", OWN), ("locomo", [LOCOMO]), ("realtalk", REALTALK)):
        path = tmp_path / "file.json"
        path.write_text(json.dumps(content), encoding="utf-8-sig")
        assert len(read(name, path)) == 1


class Pieces(io.StringIO):
    """A text that counts what is read of it."""

    def read(self, size: int | None = -1) -> str:
        text = super().read(size)
        assert self.tell() < 100, "read on"
        return text


@pytest.mark.parametrize("text", ['[{"text": "a"} no JSON', '[{"text": "never closed', "[" + '{"text": "a"}' * 3 + "]"])
def test_of_another_file_no_more_is_read_than_tells_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    monkeypatch.setattr(source, "_CHUNK", 8)
    monkeypatch.setattr(source, "_LONGEST", 20)
    monkeypatch.setattr(Path, "open", lambda *_, **__: Pieces(text + " more" * 1000))
    items = source.json_items(tmp_path / "large.json", Item)
    with pytest.raises(ValueError, match=r"Expecting|more than 20 characters"):
        list(items)


def test_a_time_in_another_form_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "s.json", [longmemeval(question_date="yesterday")])
    with pytest.raises(WrongFileError, match="'yesterday'"):
        read("longmemeval", path)


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for name in SOURCES:
        with pytest.raises(WrongFileError, match="no such file"):
            load(SOURCES[name], tmp_path / "nowhere")


def test_a_folder_is_refused_where_a_file_is_wanted_and_one_without_chats_too(tmp_path: Path) -> None:
    for name in SOURCES:
        with pytest.raises(WrongFileError, match="a folder without it"):
            load(SOURCES[name], tmp_path)


def test_a_published_file_is_known_by_its_checksum(tmp_path: Path) -> None:
    path = written(tmp_path / "locomo10.json", [LOCOMO])
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert (load(SOURCES["locomo"], path).sha256, load(SOURCES["locomo"], path).published) == (digest, None)
    known = replace(SOURCES["locomo"], checksums={digest: "this one"})
    assert load(known, path).published == "this one"


def test_the_checksum_of_a_folder_is_that_of_a_listing_of_its_files(tmp_path: Path) -> None:
    paths = [written(tmp_path / name, REALTALK) for name in ("Chat_1_A_B.json", "Chat_2_A_B.json")]
    lines = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in paths)
    assert load(SOURCES["realtalk"], tmp_path).sha256 == hashlib.sha256(lines.encode()).hexdigest()


def test_no_more_is_read_than_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "locomo10.json"
    path.write_text(f"[{json.dumps(LOCOMO)}, {{broken")
    assert len(read("locomo", path, limit=1)) == 1


def test_conversations_are_read_by_their_names_and_one_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = written(
        tmp_path / "locomo10.json", [LOCOMO | {"sample_id": name} for name in ("conv-1", "conv-2", "conv-3")]
    )
    loaded = load(SOURCES["locomo"], path, names=["conv-3", "conv-1"])
    assert [conversation.name for conversation in loaded] == ["conv-1", "conv-3"]
    with pytest.raises(WrongFileError, match="found no conversation conv-4, conv-5"):
        list(load(SOURCES["locomo"], path, names=["conv-1", "conv-5", "conv-4"]))


class Item(BaseModel):
    text: str


@given(texts=st.lists(st.text(max_size=30), max_size=8), lines=st.booleans(), chunk=st.integers(1, 40))
@settings(deadline=None, max_examples=25)
def test_items_are_the_same_wherever_a_file_is_cut_into_chunks(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], lines: bool, chunk: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "items.json"
    items = [{"text": text} for text in texts]
    path.write_text("\n".join(map(json.dumps, items)) if lines else json.dumps(items, indent=1, ensure_ascii=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_CHUNK", chunk)
        assert [item.text for item in source.json_items(path, Item)] == texts


def test_every_data_set_says_where_it_comes_from_and_under_which_licence() -> None:
    for name, known in SOURCES.items():
        assert known.name == name
        assert known.where
        assert known.licence
        assert all(len(checksum) == 64 for checksum in known.checksums)
