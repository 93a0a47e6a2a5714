"""A topic as an object: its name and its partitions' assignments."""

from dataclasses import dataclass, field

from streaming.replay.assignment import Assignment


@dataclass(slots=True, kw_only=True)
class Topic:
    """A topic; its name is None until a TopicRecord is read."""

    name: str | None = None
    partitions: dict[int, Assignment] = field(default_factory=dict)
