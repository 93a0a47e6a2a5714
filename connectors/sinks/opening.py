"""Opening a sink by what `--sink` says."""

import sys
from pathlib import Path

from connectors.errors import UsageError
from connectors.sinks.console import ConsoleSink
from connectors.sinks.jsonl import JsonlSink
from connectors.sinks.sink import Sink

_KNOWN = "known are jsonl:PATH and console"


def open_sink(spec: str) -> Sink:
    """The sink of one `--sink` option.

    Raises:
        UsageError: the kind is not known, or the place cannot be written.
    """
    kind, _, place = spec.partition(":")
    match kind:
        case "jsonl" if place:
            return JsonlSink(Path(place).expanduser())
        case "jsonl":
            raise UsageError(f"--sink jsonl names no file; {_KNOWN}.")
        case "console" if not place:
            return ConsoleSink(sys.stderr)
        case "console":
            raise UsageError("--sink console takes nothing behind it.")
        case _:
            # Only the kind is shown: what stands behind it may be a secret.
            raise UsageError(f"--sink {kind[:20]!r} is not known; {_KNOWN}.")
