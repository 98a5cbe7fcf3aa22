"""Copies of whole scopes from one store to another, row by row: file, PostgreSQL, and files of rows."""
