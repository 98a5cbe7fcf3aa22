"""reme: durable, scoped memory for agents."""
