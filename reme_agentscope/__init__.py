"""reme for AgentScope 1.x and 2.x. Empty for now: the adapters are issues of their own."""
