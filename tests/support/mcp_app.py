"""A service with MCP on a free port of this machine, as a process: its port is the first line that it prints."""

from __future__ import annotations

import socket
import sys

import uvicorn

from reme_core import ReMe
from reme_core.schema import make_scope
from reme_core.serve.access import Principal
from reme_core.serve.guard import GuardRules
from reme_core.serve.mcp import mcp_routes
from reme_core.serve.service import make_app, make_service


def main(folder: str) -> None:
    service = make_service(ReMe("space", folder, llm=None, embedding=None))
    routes, running = mcp_routes(service)
    rules = GuardRules(anonymous=Principal(scope=make_scope("space", "ana")))
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(make_app(service, rules, routes, [running]), log_level="warning")
    uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(sys.argv[1])
