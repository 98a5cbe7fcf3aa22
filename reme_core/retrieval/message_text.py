"""The text that is embedded for a message."""


def message_text(name: str, text: str) -> str:
    """Write a message as it is embedded: `Name: text`, or the text alone where nobody is named."""
    return f"{name}: {text}" if name else text
