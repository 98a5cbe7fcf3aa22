"""Import of folders of Markdown that other makers' agents keep; a folder is only read."""
