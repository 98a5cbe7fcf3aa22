"""Functions that both generations of AgentScope need."""
