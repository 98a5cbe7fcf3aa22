"""For AgentScope 2.x."""
