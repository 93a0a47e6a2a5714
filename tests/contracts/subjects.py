"""Every kind of sink that speaks HTTP, as the contract's tests see it. A new kind is one more entry here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from connectors.sinks.opening import open_sink
from connectors.sinks.place import Place, Wanted, Webhook
from connectors.sinks.secret import Secret
from connectors.sinks.sink import Sink
from tests.contracts.server import Answer, Request

SECRET = "s3cr3t-d0-n0t-sh0w"


def fine(request: Request) -> Answer:
    return Answer()


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One kind of sink."""

    kind: str
    place: Callable[[str, Path], Place]
    """Where it is, given the server's URL and the file with its CA; SECRET is in it wherever a secret can be."""
    taken: Callable[[Request], Answer] = fine
    """What the real place answers when it takes what it is sent. It asserts that it would."""
    never_taken: frozenset[int] = field(default_factory=lambda: frozenset({400, 413, 422}))
    """The statuses by which the place refuses a document for good."""

    def open(self, url: str, ca_file: Path, memory: Path) -> Sink:
        return open_sink(Wanted(place=self.place(url, ca_file)), memory=memory)

    def __str__(self) -> str:
        return self.kind


SUBJECTS = [
    Subject(
        kind="webhook",
        place=lambda url, ca_file: Webhook(
            url=Secret(text=url.replace("://", f"://eva:{SECRET}@") + f"/{SECRET}?key={SECRET}"),
            headers=(("X-Key", Secret(text=SECRET)),),
            signing_key=Secret(text=SECRET),
            ca_file=ca_file,
        ),
    ),
]
