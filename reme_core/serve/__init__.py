"""Serving a memory to other programs: HTTP, MCP and an OpenAI-compatible door on one port."""
