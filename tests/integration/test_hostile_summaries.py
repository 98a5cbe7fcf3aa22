"""Summaries over the wire: whatever an endpoint does, what it writes is a summary of what was said, or isn't used."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from reme_core.errors import ContextTooLongError, ModelOutputError, ModelRejectedError, ModelUnavailableError, ReMeError
from reme_core.models import CharacterTokenCounter, OpenAIChat
from reme_core.schema import parse_messages
from reme_core.working.summary.compact import Compacted, compact_memory
from reme_core.working.summary.sections import Section, Summary, parse_summary, summary_of
from reme_core.working.summary.summary_fit import CompactRequest
from tests.support.openai_server import KEY, Completion, HangUp, Hold, OpenAIServer, Raw, Reply, Status
from tests.unit.working.summary.summarising import answer_of, answer_with

REFERENCE = "aaaa000011112222"
EARLIER = summary_of({Section.GOAL: ["Find the cheapest flight to Oslo"], Section.CONSTRAINTS: ["At most 300 euros"]})
SAID = [
    ("user", "Look for flights to Oslo on 2024-03-01, never with a stop in Paris."),
    ("assistant", "The cheapest flight to Oslo leaves at 07:45 for 219 euros. Next I will check the luggage rules."),
]
GOOD = summary_of(
    {
        Section.GOAL: ["Find the cheapest flight to Oslo on 2024-03-01"],
        Section.CONSTRAINTS: ["At most 300 euros", "never with a stop in Paris"],
        Section.PROGRESS: ["The cheapest leaves at 07:45 for 219 euros"],
        Section.NEXT_STEPS: ["check the luggage rules"],
    }
)

ANSWER = answer_with(GOOD, gone=[1, 2])


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


async def compacted(server: OpenAIServer, *, timeout_s: float = 30.0) -> Compacted:
    request = CompactRequest(
        messages=parse_messages(SAID),
        previous_summary=EARLIER.text,
        reference=REFERENCE,
        limit_tokens=400,
        window_tokens=8000,
    )
    async with OpenAIChat("any", base_url=server.base_url, api_key=KEY, max_retries=0, timeout_s=timeout_s) as model:
        return await compact_memory(request, model=model, counter=CharacterTokenCounter())


def check_fallback(done: Compacted, error: type[ReMeError]) -> None:
    assert [type(failure) for failure in done.failures] == [error]
    assert done.method == "extract"
    summary = parse_summary(done.summary)
    assert summary.of(Section.GOAL)[0] == "Find the cheapest flight to Oslo"
    assert summary.of(Section.CONSTRAINTS)[0] == "At most 300 euros"
    assert any("07:45" in line for line in summary.of(Section.PROGRESS))
    assert summary.of(Section.CONTEXT)[-1].endswith(f"details: reload {REFERENCE}")


async def test_a_good_answer_is_the_summary_with_a_pointer_at_what_left(server: OpenAIServer) -> None:
    server.replies(Completion(text=ANSWER))
    done = await compacted(server)
    summary = parse_summary(done.summary)
    assert (done.method, done.failures, done.usage.model_calls) == ("model", (), 1)
    assert server.requests[0].body["response_format"]["json_schema"]["strict"] is True
    assert summary.with_lines(Section.CONTEXT, ()) == GOOD
    assert summary.of(Section.CONTEXT)[-1].endswith(f"details: reload {REFERENCE}")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Status(429), ModelUnavailableError),
        (Status(500), ModelUnavailableError),
        (Status(401), ModelRejectedError),
        (Status(400, "This model's maximum context length is 4096 tokens."), ContextTooLongError),
        (HangUp(), ModelUnavailableError),
    ],
)
async def test_an_error_of_the_endpoint_leaves_quotations(
    server: OpenAIServer, reply: Reply, error: type[ReMeError]
) -> None:
    server.otherwise = reply
    done = await compacted(server)
    check_fallback(done, error)
    assert "429" not in done.summary


async def test_an_answer_that_does_not_come_leaves_quotations(server: OpenAIServer) -> None:
    server.otherwise = Hold()
    check_fallback(await compacted(server, timeout_s=0.05), ModelUnavailableError)


@pytest.mark.parametrize(
    "reply",
    [
        Completion(text="Hello, I am an assistant. How can I help you today?"),
        Completion(text="Error: rate limit exceeded (429)"),
        Completion(text=""),
        Completion(text=None),
        Completion(text="   "),
        Completion(text=Summary().text),
        Completion(text=json.dumps({"error": {"message": "rate limit exceeded", "code": 429}})),
        Completion(text=ANSWER, finish_reason="length"),
        Completion(text=ANSWER[:200]),
        Completion(text=GOOD.text * 40),
        Completion(text=answer_of({Section.GOAL: ["flight to Oslo " * 400]})),
    ],
)
async def test_an_answer_that_is_no_summary_leaves_quotations_after_a_second_one(
    server: OpenAIServer, reply: Reply
) -> None:
    server.otherwise = reply
    done = await compacted(server)
    check_fallback(done, ModelOutputError)
    assert len(server.requests) == 2
    assert "assistant." not in done.summary
    assert "rate limit" not in done.summary


async def test_thoughts_errors_and_offers_around_a_good_answer_are_cut(server: OpenAIServer) -> None:
    thoughts = "<think>\nThey want a summary.\n</think>\n\n"
    error = "Error: 429 Too many requests, rate limit exceeded, retry later"
    said = ANSWER.replace('"progress": [', f'"progress": ["{error}", "---", ')
    server.replies(Completion(text=f"{thoughts}```json\n{said}\n```\n\nLet me know if you want it shorter!"))
    done = await compacted(server)
    summary = parse_summary(done.summary)
    assert (done.method, done.failures) == ("model", ())
    assert summary.with_lines(Section.CONTEXT, ()) == GOOD
    assert len(summary.of(Section.CONTEXT)) == 1


async def test_a_body_that_is_no_json_leaves_quotations(server: OpenAIServer) -> None:
    server.otherwise = Raw(b"<html>It works!</html>", content_type="text/html")
    done = await compacted(server)
    [failure] = done.failures
    check_fallback(done, type(failure))
    assert "It works" not in done.summary


async def test_a_bad_answer_is_forgiven_once(server: OpenAIServer) -> None:
    server.replies(Completion(text="Sure! Here is the summary."), Completion(text=ANSWER))
    done = await compacted(server)
    assert done.method == "model"
    assert done.usage.model_calls == 2
