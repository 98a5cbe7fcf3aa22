"""A way to a server of PostgreSQL that can be cut, or hold back what is sent, at any message."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from psycopg.conninfo import conninfo_to_dict

Fate = Literal["pass", "cut", "cut and late"]
Decide = Callable[[bytes, bool], Fate]
"""What becomes of what is sent: the bytes, and whether they come from the client."""


class Relay:
    """Connections by way of here; `decide` may be set anew at any time."""

    def __init__(self, server: socket.SocketType, connect: Callable[[], socket.socket]) -> None:
        """Take a listening socket, and what connects to the server."""
        self.decide: Decide = lambda _, __: "pass"
        self.late = threading.Event()  # once set, what was held back goes to the server
        self.arrived = threading.Event()  # the server has ended a connection that was cut, late or not
        self._server, self._connect = server, connect
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # the end
            while True:
                client, _ = self._server.accept()
                there = self._connect()
                self._open += [client, there]
                for from_client in (True, False):
                    threading.Thread(target=self._carry, args=(client, there, from_client), daemon=True).start()

    def _carry(self, client: socket.socket, there: socket.socket, from_client: bool) -> None:
        source, target = (client, there) if from_client else (there, client)
        with suppress(OSError):
            while said := source.recv(1 << 16):
                fate = self.decide(said, from_client)
                if fate != "pass":
                    client.shutdown(socket.SHUT_RDWR)
                if fate == "cut and late":
                    self.late.wait(20)
                    there.sendall(said)
                    there.shutdown(socket.SHUT_WR)
                    return
                if fate == "cut":
                    break
                target.sendall(said)
        for end in (client, there) if from_client else (client,):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        if not from_client:
            self.arrived.set()

    def close(self) -> None:
        """End all connections."""
        for end in (self._server, *self._open):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def relayed(url: str) -> Iterator[tuple[Relay, str]]:
    """Give a relay to a server, and the URL that leads by way of it."""
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    host, port = parts.get("host", "localhost"), parts.get("port", "5432")

    def connect() -> socket.socket:
        if not host.startswith("/"):
            return socket.create_connection((host, int(port)))
        there = socket.socket(socket.AF_UNIX)
        there.connect(f"{host}/.s.PGSQL.{port}")
        return there

    with tempfile.TemporaryDirectory(prefix="reme-relay-") as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(Path(folder) / ".s.PGSQL.5432"))
        server.listen()
        relay = Relay(server, connect)
        login = f"{quote(parts['user'], safe='')}:{quote(parts['password'], safe='')}"
        try:
            yield relay, f"postgresql://{login}@/{parts['dbname']}?host={quote(folder)}&port=5432"
        finally:
            relay.close()
