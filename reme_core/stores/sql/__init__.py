"""Rows of a store in SQL: what every engine of ours shares, over a small connection protocol."""
