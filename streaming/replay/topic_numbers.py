"""TopicNumbers: the topics of the partition table by number. The number of a removed topic is used again."""

from collections.abc import Iterator

import numpy as np

from connectors.event_block import UUID_TEXT, Numbers, Octets
from rules.model.identifiers import TopicId


class TopicNumbers:
    """The id and name of each topic."""

    def __init__(self) -> None:
        self.ids: list[TopicId | None] = []
        """By number; None for a number that is free."""
        self.names: list[str | None] = []
        """By number; None until a TopicRecord is read."""
        self._numbers: dict[TopicId, int] = {}
        self._free: list[int] = []
        self.changed: set[int] = set()
        """Numbers whose id or name changed since the set was last cleared."""

    @classmethod
    def restored(cls, ids: list[TopicId | None], names: list[str | None]) -> "TopicNumbers":
        """Returns stored topics; takes over both lists."""
        topics = cls()
        topics.ids, topics.names = ids, names
        topics._numbers = {topic_id: number for number, topic_id in enumerate(ids) if topic_id is not None}
        topics._free = [number for number, topic_id in enumerate(ids) if topic_id is None]
        return topics

    def find(self, topic_id: TopicId) -> int | None:
        """Returns the number of a topic; None if it is unknown."""
        return self._numbers.get(topic_id)

    def name(self, topic_id: TopicId) -> str | None:
        """Returns the name of a topic; None if it is not known."""
        number = self._numbers.get(topic_id)
        return None if number is None else self.names[number]

    def number(self, topic_id: TopicId) -> int:
        """Returns the number of a topic; adds the topic if it is unknown."""
        known = self._numbers.get(topic_id)
        if known is not None:
            return known
        if self._free:
            number = self._free.pop()
            self.ids[number] = topic_id
        else:
            number = len(self.ids)
            self.ids.append(topic_id)
            self.names.append(None)
        self._numbers[topic_id] = number
        self.changed.add(number)
        return number

    def numbers(self, texts: Octets) -> Numbers:
        """Returns the number of each topic; adds those that are unknown.

        Args:
            texts: topic ids as ASCII, UUID_TEXT bytes each.
        """
        whole = np.ascontiguousarray(texts).view(f"S{UUID_TEXT}").reshape(-1)
        # Adjacent records often share their topic.
        first = np.flatnonzero(np.concatenate(([True], whole[1:] != whole[:-1])))
        text = whole[first].tobytes().decode("ascii")
        ids = [TopicId(text[at : at + UUID_TEXT]) for at in range(0, len(text), UUID_TEXT)]
        known = [*map(self._numbers.get, ids)]
        if None in known:
            known = [*map(self.number, ids)]
        found = np.array(known, np.int32)
        repeated: Numbers = np.repeat(found, np.diff(first, append=len(whole)))
        return repeated

    def set_name(self, number: int, name: str) -> None:
        """Sets the name of a topic."""
        self.names[number] = name
        self.changed.add(number)

    def named(self, name: str) -> Iterator[int]:
        """Yields the topics with a name."""
        return (number for number, known in enumerate(self.names) if known == name)

    def remove(self, topic_id: TopicId) -> None:
        """Removes a topic."""
        number = self._numbers.pop(topic_id)
        self.ids[number] = self.names[number] = None
        self._free.append(number)
        self.changed.add(number)

    def __iter__(self) -> Iterator[tuple[int, TopicId, str | None]]:
        """Yields number, id and name of each topic."""
        for number, (topic_id, name) in enumerate(zip(self.ids, self.names, strict=True)):
            if topic_id is not None:
                yield number, topic_id, name
