"""Conversations of your own, in the form of this project's small sets and of `examples/demo_conversation.json`."""

from reme_bench.conversations import talks
from reme_bench.datasets.source import Source

SOURCE = Source(
    name="own",
    title="a file of conversations with questions",
    files=("a file of yours",),
    where="your own conversations (docs/benchmarks.md describes the form)",
    licence="yours",
    form="a JSON list of conversations with sessions of messages, and questions with ids of evidence messages",
    read=talks,
)
