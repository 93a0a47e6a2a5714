"""The kinds of sinks without an HTTP server, as the contract uses them."""

import io
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from connectors.settings.secret import Secret
from connectors.sinks.console import ConsoleSink
from connectors.sinks.jsonl import JsonlSection
from connectors.sinks.kafka_sink import KafkaSection
from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import MessageLinks
from tests.sinks.sink_kind import SECRET


@dataclass(frozen=True, kw_only=True)
class LocalKind:
    """A kind of sink and its destination."""

    kind: str
    open: Callable[[Path], Sink] | None
    """Opens it where everything works; None: that needs a broker."""
    shown: Callable[[Path, Sink], str] = lambda folder, sink: ""
    """Returns what the destination shows."""
    open_broken: Callable[[Path], Sink]
    """Opens it, and then its destination does not work."""
    open_silent: Callable[[int], Sink] | None = None
    """Opens it with a port on which nothing answers."""

    def __str__(self) -> str:
        return self.kind


def _file(folder: Path) -> Sink:
    return JsonlSection(path=folder / "alerts.jsonl").open(MessageLinks(), folder)


def _file_without_folder(folder: Path) -> Sink:
    gone = folder / "gone"
    gone.mkdir()
    sink = _file(gone)
    (gone / "alerts.jsonl").unlink()
    gone.rmdir()
    return sink


def _closed_console(folder: Path) -> Sink:
    stream = io.StringIO()
    sink = ConsoleSink(stream)
    stream.close()
    return sink


def _topic(port: int) -> Sink:
    return KafkaSection(
        bootstrap=(f"127.0.0.1:{port}",),
        topic="alerts",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="kraftwatch",
        sasl_plain_password=Secret(text=SECRET),
    ).open(MessageLinks(), Path())


def _topic_without_broker(folder: Path) -> Sink:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port: int = closed.getsockname()[1]
    return _topic(port)


LOCAL_KINDS = [
    LocalKind(
        kind="console",
        open=lambda folder: ConsoleSink(io.StringIO()),
        shown=lambda folder, sink: sink._stream.getvalue(),  # type: ignore[attr-defined]
        open_broken=_closed_console,
    ),
    LocalKind(
        kind="jsonl",
        open=_file,
        shown=lambda folder, sink: (folder / "alerts.jsonl").read_text(),
        open_broken=_file_without_folder,
    ),
    LocalKind(kind="kafka", open=None, open_broken=_topic_without_broker, open_silent=_topic),
]
