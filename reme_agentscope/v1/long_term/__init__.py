"""Long-term memory of AgentScope 1.x."""
