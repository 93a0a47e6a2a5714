"""SinkKind: what the tests of the contract need of one kind of sink that uses HTTP."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import SinkConfig, SinkSpec, open_sink
from connectors.store.store_place import StorePlace
from tests.sinks.server import HttpReply, ReceivedRequest

SECRET = "s3cr3t-d0-n0t-sh0w-0123456789abc"


def accept_all(request: ReceivedRequest) -> HttpReply:
    return HttpReply()


@dataclass(frozen=True, kw_only=True)
class SinkKind:
    """One kind of sink."""

    kind: str
    config: Callable[[str, Path], SinkConfig]
    """Returns its config for the server's URL and CA file; SECRET is in every field that can be secret."""
    reply: Callable[[ReceivedRequest], HttpReply] = accept_all
    """Returns the reply of the real service; asserts that the service would accept the request."""
    permanent: frozenset[int] = field(default_factory=lambda: frozenset({400, 413, 422}))
    """The statuses with which the service rejects a document permanently."""

    respects_retry_after: bool = True

    def open(self, url: str, ca_file: Path, store: StorePlace) -> Sink:
        return open_sink(SinkSpec(config=self.config(url, ca_file)), store=store)

    def __str__(self) -> str:
        return self.kind
