"""Offloaded texts as rows, their passages, and what contexts hold of them."""
