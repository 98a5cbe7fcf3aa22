"""reme for LangChain 1.x and LangGraph 1.x. Empty for now: the adapters are issues of their own."""
