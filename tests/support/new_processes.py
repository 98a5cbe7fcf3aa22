"""Processes that inherit nothing of the tests', and whose modules a fork server imports once (tests/conftest.py)."""

from __future__ import annotations

from multiprocessing import get_all_start_methods, get_context

NEW_PROCESSES = get_context("forkserver" if "forkserver" in get_all_start_methods() else "spawn")
