"""A chat with the client of OpenAI that remembers: what is known goes into the prompt, what was said is kept.

    python examples/openai_client/chat.py alice

Needs OPENAI_API_KEY, and OPENAI_BASE_URL for another endpoint than OpenAI's; OPENAI_MODEL names the model. An empty
line ends the talk; the next one knows what was said. A long talk is summed up before it fills the model's window.
"""

from __future__ import annotations

import os
import sys

from openai import OpenAI

from reme_core import ReMe

MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")


def main(user: str) -> None:
    client = OpenAI()
    with ReMe.sync("talks", ".reme", llm=None, embedding=None) as memory:
        context = memory.in_context_memory(user_id=user, max_input_length=128_000, overhead_tokens=1_000)
        while line := input("> ").strip():
            found = memory.retrieve(line, user_id=user, token_budget=800)  # of earlier talks
            context.add([("user", line)])
            context.prepare()
            system = {"role": "system", "content": f"You are a helpful assistant.\n{found.text}"}
            messages = [system, *context.messages(as_dicts=True)]
            answer = client.chat.completions.create(model=MODEL, messages=messages)  # type: ignore[arg-type]
            said = answer.choices[0].message.content or ""
            context.add([("assistant", said)])
            print(said)
        context.save()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "me")
