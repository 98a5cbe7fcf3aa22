"""Reading of what LangGraph's own stores and savers, and LangMem, have written."""
