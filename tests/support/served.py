"""An ASGI application behind a real server on a port of this machine, in a thread of its own."""

from __future__ import annotations

import contextlib
import socket
import threading

import uvicorn


@contextlib.contextmanager
def served(app):
    """Serve an application; give its address, such as `http://127.0.0.1:40123`."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=5)
        server = uvicorn.Server(config)
        started = threading.Event()
        startup = server.startup

        async def startup_told(sockets=None):
            await startup(sockets)
            started.set()

        server.startup = startup_told
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert started.wait(30), "the server did not start"
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)
