"""Pages of a stored state, in memory."""

from streaming.replay.stored_topics import MissingPageError, page_reference


class MemoryPages:
    """Implements PageStore, and counts the bytes that are put."""

    def __init__(self) -> None:
        self.contents: dict[bytes, bytes] = {}
        self.written = 0

    def put(self, content: bytes) -> bytes:
        reference = page_reference(content)
        if reference not in self.contents:
            self.written += len(content)
            self.contents[reference] = content
        return reference

    def get(self, reference: bytes) -> bytes:
        if reference not in self.contents:
            raise MissingPageError(f"page {reference.hex()} is missing")
        return self.contents[reference]
