"""An agent with a window of 16,000 tokens works through 500 turns with big tool results, and forgets nothing.

    python examples/long_session.py [turns]

The agent reads the log of one day after the other (18 kB each, of which a model sees a part), and now and then is asked
about a day long gone: then it loads again what left its context, with the `reload` tool. With REME_LLM_MODEL (and
REME_LLM_API_KEY or REME_LLM_BASE_URL) set, that model is asked; otherwise a server on this machine plays a simple one,
which refuses requests that don't fit its window. The program checks itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from reme_core import InContextMemory, Message, ReMe, ReMeError
from reme_core.models import CharacterTokenCounter, OpenAIChat
from reme_core.ports import ChatRequest, ToolContext, ToolSpec
from reme_core.schema import TextBlock, ToolCallBlock, ToolResultBlock
from reme_core.tools import ReloadOp

USER, WINDOW, TURNS = "keeper", 16_000, 500
SYSTEM = (
    "You keep the house's logs. Call read_log to read the log of a day. What has left this conversation can be loaded "
    "again with reload: by reference, or by a query."
)
READ_LOG = ToolSpec(
    name="read_log",
    description="Read the log of a day.",
    parameters={
        "type": "object",
        "properties": {"day": {"type": "integer"}},
        "required": ["day"],
        "additionalProperties": False,
    },
)
RELOAD = ReloadOp()


def door_code(day: int) -> str:
    return f"{(day * 7919) % 9000 + 1000}-K"


def log_of(day: int) -> str:
    """Return a long tool result; somewhere in it stands the one line that will be asked for."""
    lines = [f"{minute // 60:02}:{minute % 60:02} sensor {minute % 17} of day {day} is quiet" for minute in range(480)]
    lines[240] = f"noon: from now on the door code of day {day} is {door_code(day)}"
    return "\n".join(lines)


async def run_tool(call: ToolCallBlock, context: ToolContext) -> Message:
    """Do what the model asked for; every call gets exactly one answer."""
    arguments = call.arguments
    if call.name == RELOAD.name:
        try:
            answer = await RELOAD(arguments, context)
        except ReMeError as exc:  # a reference that there isn't, say: the model is told, and may try again
            answer = str(exc)
    elif call.name == READ_LOG.name and isinstance(arguments, Mapping) and isinstance(arguments.get("day"), int):
        answer = log_of(int(str(arguments["day"])))
    else:
        answer = f"there is no such tool, or not with these arguments: {call.name}"
    return Message(role="tool", content=(ToolResultBlock(call_id=call.call_id, name=call.name, output=answer),))


async def turn(question: str, model: OpenAIChat, context: InContextMemory, memory: ReMe) -> str:
    """Answer one question: the usual loop of an agent, with one line more."""
    context.add(Message(role="user", content=(TextBlock(text=question),)))
    while True:
        await context.prepare()  # this one
        system = Message(role="system", content=(TextBlock(text=SYSTEM),))
        request = ChatRequest(messages=[system, *context.messages()], tools=[READ_LOG, RELOAD.spec()])
        said = (await model.chat(request)).message
        context.add(said)
        calls = [block for block in said.content if isinstance(block, ToolCallBlock)]
        if not calls:
            return said.text
        for call in calls:
            context.add(await run_tool(call, memory.tool_context(user_id=USER)))


async def work(model: OpenAIChat, folder: str, turns: int) -> list[tuple[str, bool]]:
    wrong, asked = [], 0
    async with ReMe("long-session", folder, llm=model, embedding=None) as memory:
        context = memory.in_context_memory(
            user_id=USER, session_id="logs", system_prompt=SYSTEM, overhead_tokens=400, max_input_length=WINDOW
        )
        largest = 0.0
        for day in range(1, turns + 1):
            if day % 25 == 0:  # about a day whose log has left long ago
                past = day // 2 + 1
                asked += 1
                answer = await turn(f"What was the door code of day {past}?", model, context, memory)
                if door_code(past) not in answer:
                    wrong.append((past, answer))
            else:
                await turn(f"Read the log of day {day}.", model, context, memory)
            largest = max(largest, context.estimate_tokens().ratio)
        counts = await memory.stats(user_id=USER)
        last = context.estimate_tokens()
        old = await memory.clean_offloads(user_id=USER, older_than_days=0, dry_run=True)
        await context.close()
        everything = await memory.stats(user_id=USER)
    print(f"{turns} turns: {counts.offloads} offloads of {counts.offload_bytes:,} bytes, {last.tokens} tokens in sight")
    print(f"a clean-up would remove {len(old.removed)} of them and keep {len(old.held)}, which the context refers to")
    print(f"{asked} questions about days long gone, {len(wrong)} wrong answers {wrong[:2] or ''}")
    return [
        ("every question about the past was answered", not wrong),
        ("the context stayed below the window", largest < 1),
        ("every message is on disk", everything.messages >= 2 * turns),
    ]


def main() -> int:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    name = os.environ.get("REME_LLM_MODEL")
    with tempfile.TemporaryDirectory() as folder:
        if name:
            key = os.environ.get("REME_LLM_API_KEY") or os.environ.get("OPENAI_API_KEY")
            url = os.environ.get("REME_LLM_BASE_URL") or os.environ.get("OPENAI_BASE_URL")
            model = OpenAIChat(name, api_key=key, base_url=url) if url else OpenAIChat(name, api_key=key)
            checks = asyncio.run(closing(model, folder, turns))
        else:
            print("the model is a pretended one: set REME_LLM_MODEL and a key for a real one")
            with PretendedModel() as server:
                model = OpenAIChat("pretended", base_url=server.url)
                checks = asyncio.run(closing(model, folder, turns))
                checks.append(("no request was longer than the window", server.too_long == 0))
                checks.append(("the context was compacted", server.summaries > 0))
    for what, is_so in checks:
        print(f"{'ok ' if is_so else 'NOT'} {what}")
    return 0 if all(is_so for _, is_so in checks) else 1


async def closing(model: OpenAIChat, folder: str, turns: int) -> list[tuple[str, bool]]:
    async with model:
        return await work(model, folder, turns)


# From here on: a server that stands for a model. It follows four rules, and refuses what doesn't fit its window.


class PretendedModel:
    """An OpenAI-compatible endpoint on the loopback address."""

    def __init__(self) -> None:
        self.too_long = 0
        self.summaries = 0
        self.calls = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = owner.answer(body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> PretendedModel:
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, body: dict[str, object]) -> tuple[int, dict[str, object]]:
        if CharacterTokenCounter().count(json.dumps(body, ensure_ascii=False)) > WINDOW:
            self.too_long += 1
            return 400, {"error": {"message": "this is too long", "code": "context_length_exceeded"}}
        messages = body["messages"]
        assert isinstance(messages, list)
        self.calls += 1
        if "tools" in body:
            message = self.reply(messages)
        elif '"name": "summary"' in json.dumps(body["response_format"]):
            self.summaries += 1
            message = {"role": "assistant", "content": summary_of(messages[-1]["content"])}
        else:  # memories are made of what left, in the background: nothing worth one here
            message = {"role": "assistant", "content": '{"facts": []}'}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if "tool_calls" in message else "stop"}
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        frame = {"id": "1", "object": "chat.completion", "created": 1, "model": "pretended"}
        return 200, {**frame, "choices": [choice], "usage": usage}

    def reply(self, messages: list[dict[str, str]]) -> dict[str, object]:
        asked = next(item["content"] for item in reversed(messages) if item["role"] == "user")
        day = int(re.findall(r"day (\d+)", asked)[-1])
        wants_code = "door code" in asked
        if messages[-1]["role"] == "user":
            name, arguments = "read_log", json.dumps({"day": day})
            if wants_code:
                name, arguments = RELOAD.name, json.dumps({"query": f"door code of day {day}"})
            call = {"id": f"call-{self.calls}", "type": "function", "function": {"name": name, "arguments": arguments}}
            return {"role": "assistant", "content": None, "tool_calls": [call]}
        found = re.search(rf"door code of day {day} is (\S+)", messages[-1]["content"])
        told = f"It was {found[1]}." if wants_code and found else f"I have read the log of day {day}: all is quiet."
        return {"role": "assistant", "content": told}


def summary_of(prompt: str) -> str:
    """What is new, and the numbers of the lines that it takes the place of."""
    days = [int(day) for day in re.findall(r"logs? of days? (\d+)", prompt)] or [1]
    shown = [json.loads(line) for line in prompt.splitlines() if line.startswith(('{"progress":', '{"next_steps":'))]
    new: dict[str, list[object]] = {
        "gone": [int(number) for section in shown for lines in section.values() for number in lines],
        "goal": ["Read the log of each day with read_log, and answer questions about the door code of days long gone."],
        "constraints": [],
        "progress": [f"The logs of days {min(days)} to {max(days)} have been read: all is quiet."],
        "key_decisions": ["What was the door code of a day is loaded again with reload, by a query."],
        "next_steps": [f"Read the log of day {max(days) + 1}."],
        "critical_context": ["In each log a sensor reports every minute, and at noon stands the door code of the day."],
    }
    return json.dumps(new)


if __name__ == "__main__":
    sys.exit(main())
