"""Stages that find for a task what was learnt from others like it."""
