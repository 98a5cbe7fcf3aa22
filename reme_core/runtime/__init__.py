"""Flows over ports: recording, slicing, embedding, retrieving, undoing, exporting."""
