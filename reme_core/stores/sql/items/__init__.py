"""Items as rows: JSON objects by namespace and key, some of which are memories."""
