"""Summaries of messages that leave a context: written by a model or quoted, and checked."""
