"""Text from models and tools, as every database and every socket takes it."""


def storable_text(text: str) -> str:
    """Without NULs and halves of surrogate pairs."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
