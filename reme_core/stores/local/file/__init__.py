"""The SQLite file: threads, tables, migrations, scopes, bytes of vectors."""
