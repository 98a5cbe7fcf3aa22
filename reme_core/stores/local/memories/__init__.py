"""Memories as rows."""
