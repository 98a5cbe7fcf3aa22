"""The SQLite file: threads, tables, copies, and what each write keeps beside its rows."""
