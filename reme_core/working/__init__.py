"""Working memory: the context of one session, kept below its limit without losing a word."""
