"""Importers of what other memories hold: each yields plain values, which one writer puts into the store."""
