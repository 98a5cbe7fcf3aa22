"""What counts as asking."""

import pytest

from reme_core.text import is_question


@pytest.mark.parametrize(
    "text",
    [
        "How are you?",
        "Really?! I had no idea.",
        "你去过吗",
        "他人呢。",
        "你好吗？",
        "もう食べましたか。",
        "行きますか",
        "같이 갈까요",
        "먹었니?",
        "كيف حالك؟",
    ],
)
def test_questions_are_known_by_mark_or_particle(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize("text", ["", "I am fine.", "我去过北京。", "食べました。", "학교에 갔어요.", "\ud800"])
def test_statements_are_no_questions(text: str) -> None:
    assert not is_question(text)
