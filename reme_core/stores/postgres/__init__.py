"""The store on PostgreSQL: one memory for many machines. Importing a module of it needs the extra `postgres`."""
