"""Which outputs of tools are errors, and of which kind."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reme_core.text import error_class, looks_like_error
from reme_core.text.tool_errors import MAX_ERROR_CHARS, UNKNOWN_ERROR

TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 3, in <module>\n    f()\n'

# What a tool answered, and the kind of it; all of these are errors by their form.
ERRORS = {
    TRACEBACK + "ValueError: invalid literal for int() with base 10: 'a'": "ValueError",
    TRACEBACK
    + "KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n"
    + TRACEBACK
    + "shop.errors.NoSuchItem: 42\nis sold out": "NoSuchItem",
    TRACEBACK + "KeyboardInterrupt": "KeyboardInterrupt",
    "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='a.b', port=443)": "ConnectionError",
    "openai.RateLimitError: Error code: 429 - {'error': {'message': 'slow down'}}": "RateLimitError",
    "TypeError: Cannot read properties of undefined (reading 'a')\n    at x.js:1": "TypeError",
    "HTTPError: 404 Client Error: Not Found for url: https://a.b/c/9": "HTTP 404",
    "urllib.error.HTTPError: HTTP Error 503: Service Unavailable": "HTTP 503",
    "HTTP/1.1 500 Internal Server Error\nDate: Mon, 1 Jan 2024": "HTTP 500",
    "Error: Request failed with status code 403": "HTTP 403",
    "Error: HTTP 503 Service Unavailable": "HTTP 503",
    '{"error": {"code": 429, "message": "slow down"}}': "HTTP 429",
    '{"error": {"type": "invalid_request", "message": "Unknown city \'Xu\'"}}': "invalid_request: Unknown city '…'",
    '{"error": "user 42 is locked"}': "user # is locked",
    '{"isError": true, "content": [{"type": "text", "text": "Error: no table t42"}]}': "no table t#",
    '{"errors": [{"message": "Cannot query field \\"x\\""}], "data": null}': "Cannot query field '…'",
    '{"status": "error", "message": "disk full"}': "disk full",
    '{"status": "failed", "message": "disk full"}': "disk full",
    '{"type": "about:blank", "title": "Forbidden", "status": 403}': "HTTP 403",
    '{"exit_code": 2, "stderr": "ls: x: No such file or directory"}': "ls: x: No such file or directory",
    '{"returncode": 3, "stdout": "half of it"}': "exit code 3",
    "Error: exit code 127\nbash: foo: command not found": "exit code 127",
    "Error: Process exited with code 137": "exit code 137",
    "fatal: not a git repository (or any of the parent directories): .git": (
        "not a git repository (or any of the parent directories): .git"
    ),
    "[ERROR] widget 12 can't be found because it doesn't exist": "widget # can't be found because it doesn't exist",
    "error: no such column: x": "no such column: x",
    "❌ Error: out of stock": "out of stock",
    "错误：文件不存在：/tmp/a/b": "文件不存在：<path>",
    "失败：城市“上海”未找到": "城市'…'未找到",
    '[{"type":"text","text":"Error: no table t42"}]': "no table t#",
    '[{"type": "image", "data": ""}, {"type": "text", "text": "{\\"error\\": \\"locked\\"}"}]': "locked",
}

# What begins like no error by its form; recorded as a failure it has a kind all the same.
SAID_IN_WORDS = {
    "Request failed with status code 403": "HTTP 403",
    "exit code 127": "exit code 127",
    "bash: line 1: foo: command not found": "bash: line #: foo: command not found",
    "Request timed out after 30.5 s": "Request timed out after # s",
    "Failed to fetch https://a.b/c?d=7": "Failed to fetch <path>",
    "Access denied": "Access denied",
    "请求超时": "请求超时",
    "Missing required argument: city": "Missing required argument: city",
}

NO_ERRORS = [
    *SAID_IN_WORDS,
    "No errors found",
    "Error handling in Python is done with try and except.",
    "Error codes of HTTP: 404, 500",
    "Errors: 0",
    "0 errors, 3 warnings",
    "error: none",
    "Error: 0, warnings: 3",
    "Failed: 0, passed: 12",
    "Failure is not an option",
    "Fatal Attraction (1987)",
    "Exception handling",
    "ValueError is raised when the text is no number.",
    "DeprecationWarning: use g()",
    "exit code 0",
    "Exit status: 0",
    "404 pages were read",
    "HTTP 404 pages are described in section 3 of the manual",
    "The timeout is 30",
    "Timeout settings: 30",
    "key 'x': not found",
    "没有错误：一切正常",
    "错误处理指南：先读日志",
    "常见错误：忘记关闭文件",
    "失败是成功之母",
    "请求失败的原因有三",
    '{"error": null, "result": 1}',
    '{"error": "", "errors": [], "data": {"a": 1}}',
    '{"errors": ["E501"], "files": 3}',
    '{"id": 4, "status": "failed"}',
    '{"status": 200, "message": "ok"}',
    '{"returncode": 0, "stdout": "Error: quoted"}',
    '{"isError": false, "content": []}',
    '["Error: in a list"]',
    '{"error": 0.03, "rmse": 2}',
    '{"error": true, "rmse": 2}',
    '{"isError": false, "error": "x"}',
    '{"error": "No error"}',
    '{"error": "无错误。"}',
    '{"error": 0.03, "rows": [1, 2',
    '{"error": null, "rows": [1, 2',
    '{"error": "No error", "rows": [1, 2',
    "404 Not Found is a film",
    "HTTP 404 Not Found is what a server says",
    "Permission denied is a 2001 song",
    "Access denied is shown to guests",
    "Unauthorized biographies of the Beatles",
    "Invalid arguments are called fallacies",
    "The rate limit is 5 per second",
    "No invalid arguments",
    "curl: a tool for URLs",
    "Exceptions in threads",
    '[{"type": "text", "text": "3 rows"}]',
    '[{"type": "text", "text": "3 rows"}, {"type": "text", "text": "Error: quoted"}]',
    '[{"level": "x", "text": "Error: of a log"}]',
    "[]",
    "",
]


@pytest.mark.parametrize(("output", "kind"), ERRORS.items(), ids=range(len(ERRORS)))
def test_an_error_is_one_and_has_its_kind(output: str, kind: str) -> None:
    assert looks_like_error(output)
    assert error_class(output) == kind


@pytest.mark.parametrize(("output", "kind"), SAID_IN_WORDS.items())
def test_a_failure_in_words_has_a_kind(output: str, kind: str) -> None:
    assert error_class(output) == kind


@pytest.mark.parametrize("output", NO_ERRORS)
def test_what_only_speaks_of_errors_is_none(output: str) -> None:
    assert not looks_like_error(output)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Error: user 17 has no order 3", "Error: user 4,012 has no order 99"),
        ("job 3f9a0c5b-e1d2-4786-a123-3f9a0c5be1d2 is gone", "job 00000000-ffff-4786-a123-abcdef012345 is gone"),
        ("can't open /var/lib/a.db", "can't open /home/u/b/c.db"),
        ("no city named 'Ulm'", 'no city named "New York"'),
        ("commit deadbeef01 is not known", "commit 0123456789abcdef0123 is not known"),
    ],
)
def test_what_differs_from_call_to_call_makes_no_other_kind(one: str, other: str) -> None:
    assert error_class(one) == error_class(other)


@pytest.mark.parametrize("output", ["", " \n\t ", "{}", "[]", '{"error": ""}', "null"])
def test_a_failure_that_says_nothing_has_a_kind(output: str) -> None:
    assert error_class(output)


def test_a_status_alone_says_that_it_failed() -> None:
    assert looks_like_error('{"status": "failed"}')


def test_a_failure_without_text_is_an_unknown_error() -> None:
    assert error_class("  \n ") == UNKNOWN_ERROR


def test_json_that_is_told_to_have_failed_gives_its_message() -> None:
    assert error_class('{"detail": "Not enough credits: 3"}') == "Not enough credits: #"


def test_json_that_is_too_long_or_cut_off_gives_its_message_as_well() -> None:
    long = json.dumps({"error": "quota exceeded", "trace": "x" * 200_000})
    assert (looks_like_error(long), error_class(long)) == (True, "quota exceeded")
    cut = '{"isError": true, "content": [{"type": "text", "text": "quota exceeded", "more": "x'
    assert (looks_like_error(cut), error_class(cut)) == (True, "quota exceeded")
    data = json.dumps({"rows": ["x" * 200_000], "error": "in a row"})
    assert not looks_like_error(data)


def test_a_traceback_below_a_long_output_gives_its_exception() -> None:
    assert error_class("line of output\n" * 10_000 + TRACEBACK + "ZeroDivisionError: division by zero") == (
        "ZeroDivisionError"
    )


HARD = [
    "a." * 2_500_000,
    "a" * 5_000_000,
    "Error: " + "'" * 5_000_000,
    "Error: " + "/a" * 2_500_000,
    "Error: " + "1." * 2_500_000,
    "Error: " + "deadbeef" * 600_000,
    "exit code " * 500_000,
    " " * 5_000_000,
    "\n" * 5_000_000,
    '{"a":' * 1_000_000,
    '{"error":' * 5_000 + "1" + "}" * 5_000,
    '{"error": "' + "\\" * 5_000_000,
    '{"error": ' + "9" * 60_000 + "}",
    "[" * 5_000_000,
    "[" * 60_000,
    "tool " * 1_000_000,
    "rate limit " * 500_000,
    TRACEBACK * 60_000,
    TRACEBACK + "a." * 2_500_000 + "Error",
    "请" * 5_000_000,
    "错误" * 2_500_000,
]


@pytest.mark.parametrize("output", HARD, ids=range(len(HARD)))
def test_megabytes_made_to_be_slow_are_read_at_once(output: str) -> None:
    looks_like_error(output)  # what takes squared time fails by the limit of time for a test
    assert 0 < len(error_class(output)) <= MAX_ERROR_CHARS


PIECES = [
    "Error",
    ":",
    " ",
    "\n",
    "'",
    '"',
    "{",
    "}",
    "[",
    "404",
    "exit code ",
    TRACEBACK,
    "错误",
    "：",
    "/a/b",
    "失败",
]


@given(st.one_of(st.text(max_size=300), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)))
def test_any_text_has_a_kind_of_one_short_line(output: str) -> None:
    kind = error_class(output)
    assert kind
    assert len(kind) <= MAX_ERROR_CHARS
    assert len(kind.splitlines()) == 1
    assert kind == kind.strip()
    assert looks_like_error(output) in (True, False)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["error", "errors", "message", "status", "code", "isError", "content", "text", "exit_code"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=8,
    )
)
def test_any_json_has_a_kind(value: object) -> None:
    output = json.dumps(value)
    assert error_class(output)
    assert looks_like_error(output) in (True, False)
