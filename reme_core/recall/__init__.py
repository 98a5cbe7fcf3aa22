"""Recalling: retrieval without a model, with one, with an agent; one turn of a chat."""
