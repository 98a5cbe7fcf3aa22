"""Memories in the language of their source, as far as its script tells which that is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reme_core.testing import ScriptedChatModel
from reme_core.text import main_script, share_of_script
from reme_core.text.language import count_scripts
from tests.support.temporary_store import TemporaryStore
from tests.unit.remember.distilling import SCOPE, all_of, contents, distiller, fact, facts, say, task_of

IN = {
    "Latin": ("I moved to Lisbon last week with my sister", "Alice moved to Lisbon with her sister"),
    "Han": ("我上周和妹妹一起搬到了里斯本", "小王和妹妹一起搬到了里斯本"),
    "Kana": ("先週、妹と一緒にリスボンに引っ越しました", "アリスは妹と一緒にリスボンに引っ越した"),
    "Hangul": ("지난주에 여동생과 함께 리스본으로 이사했어요", "앨리스는 여동생과 함께 리스본으로 이사했다"),
    "Cyrillic": ("На прошлой неделе я переехала в Лиссабон", "Алиса переехала в Лиссабон с сестрой"),
    "Arabic": ("انتقلت الأسبوع الماضي إلى لشبونة مع أختي", "انتقلت أليس إلى لشبونة مع أختها"),
}
CODE = "def main():\n    return load(path)  # " * 5
PAIRS = [(own, other) for own in IN for other in IN if own != other]


async def distilled_of(text: str, *steps: Any, **options: Any) -> tuple[Any, list[Any], ScriptedChatModel]:
    store = TemporaryStore()
    with ScriptedChatModel(steps) as model:
        task = task_of(say(*([text] if isinstance(text, str) else text), name=None), **options)
        distilled = await distiller(store, model).distil(SCOPE, task)
    await store.put(SCOPE, distilled.batch)
    return distilled, await all_of(store), model


@pytest.mark.parametrize(("own", "other"), PAIRS)
async def test_a_fact_in_another_script_than_its_message_is_asked_for_once_more(own: str, other: str) -> None:
    good = facts(fact(IN[own][1], target="self"))
    _, memories, model = await distilled_of(IN[own][0], facts(fact(IN[other][1], target="self")), good)
    assert contents(memories) == [IN[own][1]]
    assert "write it in their language" in model.requests[1].messages[-1].text


@pytest.mark.parametrize("own", IN)
async def test_a_fact_in_the_script_of_its_message_costs_no_further_call(own: str) -> None:
    await distilled_of(IN[own][0], facts(fact(IN[own][1], target="self")))


async def test_one_that_stays_in_another_script_is_kept_as_it_is() -> None:
    foreign = facts(fact(IN["Latin"][1]))
    distilled, memories, _ = await distilled_of(IN["Cyrillic"][0], foreign, foreign)
    assert contents(memories) == [IN["Latin"][1]]
    assert distilled.rejected_facts == ()


async def test_each_fact_is_held_against_its_own_messages() -> None:
    talk = [IN["Cyrillic"][0], IN["Latin"][0], "ok"]
    both = facts(fact(IN["Cyrillic"][1], 1), fact(IN["Latin"][1], 2), fact(IN["Latin"][1], 3, target="Bob"))
    _, memories, _ = await distilled_of(talk, both)
    assert len(memories) == 3
    crossed = facts(fact(IN["Cyrillic"][1], 2))
    _, _, model = await distilled_of(talk, crossed, crossed)
    assert len(model.requests) == 2


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (CODE + "这个函数报错了，请帮我看看怎么修改才对", "用户的函数 main 报错，需要修改"),
        ("我新买了iPhone 15 Pro Max和AirPods，特别喜欢", "用户新买了 iPhone 15 Pro Max 和 AirPods"),
        ("Купил MacBook Pro, очень доволен", "Купил MacBook Pro и очень доволен"),
        ("OK 👍", "Алиса согласна на встречу"),
        ("1234567890", "Alice gave her number"),
        ("Μετακόμισα στη Λισαβόνα με την αδελφή μου", "Η Αλίκη μετακόμισε στη Λισαβόνα"),
    ],
)
async def test_names_code_and_short_texts_of_another_script_are_no_reason_to_ask(text: str, content: str) -> None:
    await distilled_of(text, facts(fact(content, target="self")))


async def test_a_summary_in_another_script_is_asked_for_once_more_with_the_facts() -> None:
    def answer(summary: str, *items: Any) -> str:
        return json.dumps({"summary": summary, "facts": list(items)}, ensure_ascii=False)

    good = fact(IN["Hangul"][1], target="self")
    distilled, _, model = await distilled_of(
        IN["Hangul"][0], answer("Alice moved to Lisbon in May 2023.", good), answer("앨리스는 이사 이야기를 했다.")
    )
    assert [entry.summary for entry in distilled.summaries] == ["앨리스는 이사 이야기를 했다."]
    assert "summary: write it in the language" in model.requests[1].messages[-1].text
    assert len(distilled.batch.puts) == 2


def test_scripts_are_counted_by_letters_and_han_among_kana_is_japanese() -> None:
    assert count_scripts(["Ab, я! 3"]) == {"LATIN": 2, "CYRILLIC": 1}
    assert count_scripts(["東京に行く"]) == {"KANA": 5}
    assert count_scripts(["我在东京住了很久，商店叫カ"]) == {"HAN": 11, "KANA": 1}
    assert main_script(["я", "ab"]) == "LATIN"
    assert main_script(["123"]) is None
    assert share_of_script(["hello there everybody"], "short") is None
    assert share_of_script(["hello there everybody"], "goodbye to all of you") == 1.0
