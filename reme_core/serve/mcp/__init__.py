"""MCP: the memory as tools, resources and prompts of the Model Context Protocol, over stdio and streamable HTTP.

Built on the low-level `Server` of the official SDK: which tools are listed depends on the caller's rights, and what is
wrong with arguments is told in our words; the SDK's `MCPServer` does neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reme_core.lazy_names import lazy_names
from reme_core.serve.mcp.options import McpOptions as McpOptions
from reme_core.serve.mcp.options import Profile as Profile

if TYPE_CHECKING:
    from reme_core.serve.mcp.routes import mcp_routes as mcp_routes
    from reme_core.serve.mcp.server import make_server as make_server
else:  # the SDK takes most of a second; the options are read, and refused, without it
    __getattr__, __dir__ = lazy_names(__name__, {"routes": "mcp_routes", "server": "make_server"})
