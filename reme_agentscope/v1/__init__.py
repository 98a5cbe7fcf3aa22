"""For AgentScope 1.x."""
