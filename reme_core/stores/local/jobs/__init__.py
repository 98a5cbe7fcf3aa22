"""Jobs and tool calls as rows."""
