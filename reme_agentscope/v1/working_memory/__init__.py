"""Working memory of AgentScope 1.x."""
