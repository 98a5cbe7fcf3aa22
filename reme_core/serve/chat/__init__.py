"""The OpenAI-compatible door: a proxy in front of a chat model that remembers the talk and recalls what helps."""
