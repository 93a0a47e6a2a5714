"""Crashes at any step of a delivery, any number of times: the jsonl file holds each transition once, in order.

The process ends at the n-th call that changes a file or the database: before it, after it, or, for a write to a file,
after some of the bytes.
Then everything is opened again and the batch is delivered again, as Spark does.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.delivery.ledger import Ledger
from connectors.sinks.alert_json import key_of
from connectors.sinks.jsonl import JsonlSink
from connectors.store import sqlite_file
from connectors.store.alert_store import AlertStore
from connectors.store.tables import sqlite_database
from tests.conftest import examples
from tests.recording_dispatcher import RecordingDispatcher
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert

BATCHES = [
    [alert("one"), alert("two")],
    [],
    [alert("one", resolved=True)],
    [alert("three"), alert("two", resolved=True), alert("one", started_at_ms=NOON_MS + 60_000)],
]
EXPECTED = [each.key for batch in BATCHES for each in batch]


class Crash(BaseException):
    """The process ends: nothing may catch this."""


@dataclass(frozen=True)
class CrashPoint:
    """Where the process ends."""

    call: int
    after: bool
    part: float
    """The part of a write that is done before the crash."""


crash_points = st.builds(CrashPoint, call=st.integers(0, 30), after=st.booleans(), part=st.floats(0, 1))


@contextmanager
def crashing_at(point: CrashPoint) -> Iterator[None]:
    calls = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls - 1 < point.call:
                return real(*args, **named)
            if calls - 1 > point.call:
                raise Crash
            if real is os_write:
                real(args[0], args[1][: int(len(args[1]) * point.part)], *args[2:])
            elif point.after:
                real(*args, **named)
            raise Crash

        return call

    os_write = os.write
    with pytest.MonkeyPatch.context() as patched:
        for name in ("write", "fsync", "ftruncate"):
            patched.setattr(os, name, counted(getattr(os, name)))
        patched.setattr(AlertStore, "_write", counted(AlertStore._write))
        yield


def run(directory: Path, done: int) -> Iterator[int]:
    """Delivers the batches from `done` on; yields how many are committed."""
    opened = sqlite_database(directory)
    try:
        dispatcher = RecordingDispatcher(
            Ledger(opened), [JsonlSink(directory / "alerts.jsonl"), RecordingSink()], deadline_s=60, patience_s=60
        )
        for batch in BATCHES[done:]:
            dispatcher.deliver(batch, NOON_MS)
            done += 1
            yield done
    finally:
        opened.close()


@settings(max_examples=examples(400, 10), deadline=None)
@given(st.lists(crash_points, min_size=1, max_size=5), st.booleans())
def test_each_transition_is_in_the_file_once_and_in_order(crashes: list[CrashPoint], new_checkpoint: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, patch.object(sqlite_file, "SYNCHRONOUS", "OFF"):
        directory = Path(folder)
        done = 0
        for point in crashes:
            try:
                with crashing_at(point):
                    for committed in run(directory, done):
                        done = committed
            except Crash:
                # A crash between delivery and Spark's commit: Spark repeats the batch.
                done = max(0, done - 1)
        if new_checkpoint:
            for path in directory.glob("kraftwatch.db*"):
                path.unlink()
            done = 0
        assert list(run(directory, done))[-1:] in ([], [len(BATCHES)])
        assert list(run(directory, len(BATCHES) - 1)) == [len(BATCHES)]
        lines = (directory / "alerts.jsonl").read_bytes().splitlines()
        assert [key_of(line) for line in lines] == EXPECTED
        assert sqlite_database(directory).damage() is None
