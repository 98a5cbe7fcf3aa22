"""Models of your own: any object with `dimension` and `embed` is an embedder.

Settings name an OpenAI-compatible endpoint instead; keys come from the environment if they are left out:

    ReMe(
        "remy",
        llm={"backend": "openai", "model": "qwen-plus", "temperature": 0.6},
        embedding={"backend": "openai", "model": "text-embedding-v4", "dimension": 1024},
    )
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from reme_core import ReMe

TOPICS = {
    0: ("dog", "puppy", "cat", "pet", "hamster"),
    1: ("flat", "apartment", "rent", "house", "live"),
    2: ("guitar", "piano", "song", "music", "concert"),
}


class TopicEmbedder:
    """Counts the words of a few topics: a stand-in for a real model that knows what belongs together."""

    dimension = len(TOPICS) + 1

    async def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return float32 (n, dimension) with rows of unit norm."""
        rows = np.full((len(texts), self.dimension), 0.1, np.float32)
        for row, text in zip(rows, texts, strict=True):
            for topic, words in TOPICS.items():
                row[topic] += sum(word in text.lower() for word in words)
        unit: npt.NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with ReMe("pets", folder, llm=None, embedding=TopicEmbedder()) as memory:
            for fact in ("Bo the hamster is afraid of thunder", "The rent went up in March", "Practised the piano"):
                await memory.add_memory(fact, user_id="finn")
            found = await memory.retrieve("any news of the puppy or other animals", user_id="finn", limit=1)
            print(f"no word in common, yet found: {found.results[0].memory}")
            print(f"{found.usage.embedding_calls} call of the embedder for the question")


if __name__ == "__main__":
    asyncio.run(main())
