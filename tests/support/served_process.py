"""`reme serve` or `reme inspect` in a process of its own on a free port of this machine."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import httpx2

from tests.support.forked_program import ForkedProgram

ROOT = Path(__file__).parents[2]
_ADDRESS = re.compile(r"http://[\w.:\[\]]+:\d+")


class ServedProcess:
    """A running `reme serve`: its address, a client for it, and its end."""

    def __init__(self, folder, *options, user="ana", environment=None, command="serve", program=ForkedProgram):
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("REME_", "OPENAI_"))}
        self.log = (folder / f"log {len(list(folder.glob('log *')))}").open("w+b")
        who = ["--user", user] if user else []
        self.process = program(
            [command, "--port", "0", *who, *options], folder, {**kept, **(environment or {})}, stderr=self.log
        )
        self.line = self.process.stdout.readline().decode()
        found = _ADDRESS.search(self.line)
        self.url = found[0] if found else ""
        self.client = httpx2.Client(base_url=self.url, timeout=60, trust_env=False) if found else None

    def __enter__(self):
        assert self.url, self.errors
        return self

    def __exit__(self, *_):
        if self.client is not None:
            self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        self.process.stdin.close()
        self.process.stdout.close()
        self.log.close()

    @property
    def address(self):
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    @property
    def errors(self):
        self.log.seek(0)
        return self.log.read().decode()

    def stop(self, sig=signal.SIGTERM):
        """Send a signal and return the exit code."""
        self.process.send_signal(sig)
        return self.process.wait(60)
