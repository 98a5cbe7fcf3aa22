"""Tool memory: what calls of tools add up to, and guidelines written from them."""
