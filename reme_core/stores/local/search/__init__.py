"""Ranked search over partitions in memory, kept in step with the file."""
