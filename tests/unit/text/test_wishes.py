"""Standing wishes."""

import pytest

from reme_core.text import states_wish


@pytest.mark.parametrize(
    "text",
    [
        "Always answer in metric units.",
        "Please, never send me to voice mail",
        "From now on call me Sam.",
        "I'm planning a trip, and I prefer aisle seats.",
        "We would really prefer a quiet place",
        "以后请都用中文回答。",
        "我更喜欢靠窗的座位",
        "今後は敬語でお願いします",
        "必ず出典を書いてください",
        "앞으로는 짧게 대답해 주세요",
        "항상 존댓말로 대답해 주세요",
    ],
)
def test_what_is_to_hold_from_now_on_is_a_wish(text: str) -> None:
    assert states_wish(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I have always lived here.",
        "She never came back.",
        "Never mind the passport, forget it.",
        "Never heard of it, lol.",
        "Always the same with you!",
        "Never again.",
        "What do you prefer?",
        "以后再说吧",
        "我喜欢你的主意",
        "いつも朝に走ります",
        "항상 아침에 달려요",
        "x" * 400 + " I prefer tea",
    ],
)
def test_what_was_or_is_asked_is_none(text: str) -> None:
    assert not states_wish(text)
