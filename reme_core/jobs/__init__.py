"""Jobs: how often one is tried, who holds it, what became of it, and the service that does them."""
