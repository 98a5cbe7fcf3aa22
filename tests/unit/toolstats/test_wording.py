"""What a guideline may say: its words are counted, statistics are left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.toolstats.wording import without_statistics, word_count

STATISTICS = [
    "The success rate is 93.3%.",
    "Success rate: 93 %",
    "success rates of about 0.93 can be expected",
    "It has a 12% failure rate.",
    "It has a high success rate.",
    "The error rate is very low.",
    "95% of calls succeed.",
    "About 95 percent of the recorded requests went well.",
    "Works 93% of the time.",
    "It succeeded in 28 of 30 calls.",
    "3 out of 40 attempts timed out.",
    "28 calls succeeded, 2 failed.",
    "Average time is 1.2 s.",
    "The mean response time was about 300 ms.",
    "Median latency: 0.4 s",
    "Takes 1.2 s on average.",
    "On average, a call needs 310 tokens.",
    "p95 latency is 4.0 s",
    "P95: 4 s",
    "成功率为93.3%。",
    "成功率约为九成",
    "该工具成功率很高。",
    "失败率：7%",
    "95%的调用会成功。",
    "百分之九十的请求成功",
    "30次调用中有28次成功",
    "平均耗时1.2秒",
    "平均每次消耗 310 个token",
    "共调用30次",
    "Success: 95%",
    "(95% success)",
    "Success: 95 percent of the time",
    "success ratio: 0.95",
    "It succeeds 9 times out of 10.",
    "Fails 1 in 20 times.",
    "Nine out of ten calls succeed.",
    "8/10 succeeded",
    "8/10 calls returned rows.",
    "95% of searches return results.",
    "90% of the fetched pages were empty.",
    "Avg. latency 300ms",
    "Latency is 300 ms on average.",
    "Time: mean 1.0 s, p95 1.2 s (2 timed)",
    "Tokens: mean 120",
    "Errors: 12 x TimeoutError, 3 x HTTP 404",
    "Mostly 12 x TimeoutError",
    "Calls: 9000",
    "Calls: 9000, 100 % succeeded",
    "High success rate.",
    "失败3次",
    "调用中失败了3次，其余正常。",
    "成功95%",
    "Out of 10 calls, 3 failed.",
    "Two of three calls failed.",
    "Two of three searches failed.",
    "It worked in two of three cases.",
    "Half of the calls fail.",
    "A third of the long queries timed out.",
    "Every second call fails.",
    "The tool was called 120 times.",
    "Called 120 times, 3 failures.",
    "117 succeeded, 3 failed.",
    "12 ValueErrors were seen.",
    "There were 12 timeout failures.",
    "ValueError occurred 12 times.",
    "With long queries it failed 12 times.",
    "It nearly always succeeds (98 %).",
    "Works: 98 % of calls",
    "Typical response time: 1.2 s.",
    "Response time: 1.2 s",
    "It usually takes 1.2 s.",
    "Success: 3/4.",
    "Failures: 3",
    "Success rate:\n93 %",
    "It was called\n120 times.",
]

ADVICE = [
    "Use 50% quality for previews.",
    "Set quality to 80 % or less.",
    "At most 10 calls per minute are allowed.",
    "Limit requests to 5 per second.",
    "Reduce the error rate by setting retries to 3.",
    "If it failed 3 times, try another query.",
    "Pass mode='mean' to compute the average of a column.",
    "Use p95 as the percentile where latency matters.",
    "Read page 3 of 5 with page=3.",
    "The API limits results to 100 per page; use an offset.",
    "Average several readings where values jump.",
    "Queries of 3 to 5 words work best.",
    "Timeout after 30 s: ask for fewer rows.",
    "HTTP 429 means waiting 60 s.",
    "预览图用50%的质量。",
    "每秒最多请求5次。",
    "失败3次后换关键词。",
    "先小范围查询可提高成功率。",
    "超过10MB的文件会失败，先压缩到50%。",
    "用 mode='mean' 求平均值。",
    "Avoid high error rate inputs",
    "Up to 20 of 100 requests were allowed",
    "Set a 50% failure threshold.",
    "Use one of two queries.",
    "The search works in one of two modes.",
    "Keep 20% of the work area free.",
    "Use 50% of the image returned by resize.",
    "Max calls: 10",
    "Calls: 10 per minute",
    "Give avg. or max. as the mode.",
    "Errors: read the field `detail`.",
    "Scale the image by 2 x before use.",
    "连续失败3次，换关键词。",
    "失败2次以上时停止。",
    "Retry 3 times",
    "Call it at most 5 times",
    "Wait 2 s between calls",
    "Use 50 % quality",
    "Stop if two of three calls failed.",
    "Use two of three retries for large files.",
    "Take half of the budget for the first call.",
    "Once it was called 5 times, wait a minute.",
    "Used 3 times in a row, it blocks.",
    "Called 5 times a minute, it blocks.",
    "If ValueError occurred 3 times, stop.",
    "Up to 3 errors are listed.",
    "After 3 failures, change the query.",
    "Give up after 3 failures.",
    "Keep the response time: under 2 s is best with limit=5.",
    "Works with 50 % quality.",
    "Max response time: 5 s",
    "Timeout: 30 s",
    "Success: read the field `id`.",
    "Read 3/4 of the file first.",
    "Half of the image is returned when crop=0.5.",
    "Queries that failed twice should be shortened.",
]


@pytest.mark.parametrize("line", STATISTICS)
def test_a_line_that_states_statistics_is_left_out(line: str) -> None:
    assert without_statistics(line) == ""


@pytest.mark.parametrize("line", ADVICE)
def test_a_line_of_advice_stays_as_it_is_numbers_included(line: str) -> None:
    assert without_statistics(line) == line


def test_of_several_sentences_only_those_with_statistics_go() -> None:
    text = "Use short queries. The success rate is 93%. Version 2.5 of the API wants a key.\n成功率为93%。先看日志！"
    assert without_statistics(text) == "Use short queries. Version 2.5 of the API wants a key. 先看日志！"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("Use short queries", 3),
        ("- use  short\nqueries", 4),
        ("使用短查询", 3),
        ("使用search工具", 3),
        ("使用。", 1),
        ("短い クエリ", 3),
        ("검색 도구", 2),
        ("one, two — three", 4),
    ],
)
def test_words_stand_between_blanks_and_two_characters_of_other_scripts_are_one(text: str, words: int) -> None:
    assert word_count(text) == words


@given(st.text(max_size=200))
def test_leaving_out_never_makes_a_text_longer_and_is_done_at_once(text: str) -> None:
    once = without_statistics(text)
    assert word_count(once) <= word_count(text)
    assert without_statistics(once) == once
    assert len(once.splitlines()) <= 1


@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "a ",
        "9 of ",
        "success rate ",
        "average ",
        "takes 1",
        "平均",
        "成功率",
        "on average, ",
        "50% of a ",
        "nine out of ",
        "8/",
        "two of ",
        "half of the ",
        "was called 12",
        "if it was called 12 times ",
        "success: 3/4 ",
        "if success: 3/4",
        "usually takes 1",
        "response time ",
        "12 ValueError",
    ],
)
def test_long_texts_made_to_be_slow_are_read_at_once(piece: str) -> None:
    assert isinstance(
        without_statistics(piece * (100_000 // len(piece))), str
    )  # squared time fails by the limit of time for a test
