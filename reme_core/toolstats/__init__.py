"""Tool memory: what calls of tools add up to (`Store.tool_statistics`), and guidelines written from them."""
