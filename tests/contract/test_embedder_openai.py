"""The embedder over an OpenAI-compatible endpoint keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reme_core.models import OpenAIEmbedder
from reme_core.testing.embedder_contract import EmbedderContract
from tests.support.openai_server import OpenAIServer


class TestOpenAIEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Iterator[OpenAIEmbedder]:
        with OpenAIServer() as server:
            yield OpenAIEmbedder("any", dimension=64, base_url=server.base_url, api_key="sk-test")
