"""Agents: compositions of tools behind one loop."""
