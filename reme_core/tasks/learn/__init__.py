"""Stages that learn from attempts at a task."""
