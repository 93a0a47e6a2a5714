"""Subject: what a finding and its alert are about."""

from dataclasses import dataclass
from typing import Final

from rules.model.identifiers import NodeId

NAMED: Final = (
    "controller",
    "voter set at offset",
    "voter",
    "observer",
    "broker",
    "node",
    "endpoint",
    "listener",
    "address of broker",
    "directory",
    "topic",
    "epoch",
    "log at",
    "rule",
    "contract",
    "sink",
    "rack of broker",
    "relay of",
    "rows of",
    "messages of",
    "log of",
    "cluster id",
    "id of",
)
"""The kinds whose subjects have a name: in a text, it follows the kind and a space. Of two that begin alike the longer
comes first."""
_OF_NODES: Final = frozenset(
    {"controller", "voter", "observer", "broker", "rack of broker", "address of broker", "node"}
)
NO_NODE: Final = NodeId(-1)
"""Kafka's id of no node."""


@dataclass(frozen=True, slots=True, init=False)
class Subject:
    """What a finding is about. Its text is part of an alert's identity: it stays the same from version to version."""

    kind: str
    """One of `NAMED`; of a subject that has no name, its whole text, such as `quorum`."""
    name: str | None

    def __init__(self, kind: str, name: object = None) -> None:
        """`name`: an id, a name, an address; its text is kept."""
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "name", None if name is None else str(name))

    @classmethod
    def of(cls, text: str) -> "Subject":
        """Returns the subject with this text, for example that of a stored alert."""
        kind = next((kind for kind in NAMED if text.startswith(f"{kind} ")), None)
        return cls(text) if kind is None else cls(kind, text[len(kind) + 1 :])

    def __str__(self) -> str:
        """Returns `controller 2`, or `quorum`."""
        return self.kind if self.name is None else f"{self.kind} {self.name}"

    @property
    def node(self) -> NodeId:
        """The id of the node that it is or whose replica it is; NO_NODE of all else."""
        number = (self.name or "").partition("-")[0] if self.kind in _OF_NODES else ""
        return NodeId(int(number)) if number.isdecimal() else NO_NODE
