"""Measures the latency of an alert: from the record in the metadata log to the call of an HTTP sink.

`python -m tests.bench.latency_bench [--events 510]`. A real quorum, the real job with its defaults and holds at zero,
and brokers that are fenced and unfenced at random moments: each change is one record, and fires or resolves one alert.
One broker is fenced at a time, so that each alert begins or ends an incident and is sent at once: what happens within
an open incident is collected for a minute (`rules.notifications.planner`).
Prints percentiles, the share of each step, and the floor of Spark (`spark_floor`). Asserts nothing.

The time of a record is the timestamp of its batch: the leader has appended it, so replication is part of the figure.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeVar

from connectors.decode_observation import decode_observation
from connectors.delivery.ledger_record import AlertRecorded, from_line
from connectors.journal.reader import JournalReader
from connectors.log_event import BrokerChanged
from connectors.observation import ObservationKind
from deploy.lab.lab import Lab
from rules.alert import AlertState
from streaming.demo.job_process import JobProcess
from streaming.pipeline.checkpoint import Checkpoint
from tests.bench import spark_floor
from tests.bench.batch_times import BatchTimes, batch_of
from tests.bench.fenced_broker import FencedBroker
from tests.bench.percentiles import distribution, percentiles

BROKERS = (901, 902, 903)
PAUSE_S = (0.2, 0.6)
"""The pause between two events: shorter than a second, so that events fall on every moment of the job's batches."""
WARM_UP_S = 20.0
_WARM_UP_EVENTS = 18
_RULE = "broker-fenced"
_DELIVERY_S = 30.0
_COMMIT_S = 2.0
"""The last batch is committed after its alerts were sent."""
STEPS = (
    "record -> fetched",
    "fetched -> published",
    "published -> previous batch done",
    "previous batch done -> batch planned",
    "planned -> state written",
    "state written -> driver",
    "driver -> notification due",
    "notification due -> sink called",
)
"""The committed record is fetched; the row is synced and published; Spark plans, executes and collects a batch; the
driver records the alert in the ledger; the notification planner has the alert sent, at once or later."""
_T = TypeVar("_T")
Change = tuple[int, int, bool]
"""Identifies a change: when the gatherer recorded its row, in ms; the broker; fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCalled:
    """The arrival of one transition at the sink."""

    broker: int
    fenced: bool
    observed_ms: int
    """When the gatherer recorded the row."""
    sent_ms: int
    """When the sink's call was started."""
    at: float
    """When the sink's request arrived; seconds since the Unix epoch."""


@dataclass(slots=True)
class AlertReceiver:
    """The HTTP server that a webhook sink notifies."""

    calls: list[SinkCalled] = field(default_factory=list)

    @contextmanager
    def listening(self) -> Iterator[str]:
        """Yields the URL."""
        calls = self.calls

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                at = time.time()
                document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()
                calls.extend(_sink_called(alert, at) for alert in document["new_transitions"] if alert["rule"] == _RULE)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, name="alert receiver", daemon=True)
            thread.start()
            yield f"http://127.0.0.1:{server.server_address[1]}/alerts"
            server.shutdown()


def _sink_called(alert: Mapping[str, Any], at: float) -> SinkCalled:
    return SinkCalled(
        broker=int(alert["evidence"]["broker"]),
        fenced=alert["state"] == "firing",
        observed_ms=_epoch_ms(alert["observed_at"]),
        sent_ms=_epoch_ms(alert["sent_at"]),
        at=at,
    )


def _epoch_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def figures(events: int = 510, floor_rows: int = 30) -> dict[str, Any]:
    """Returns milliseconds: percentiles of the latency, of each step and of Spark's floor."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kraftwatch-bench-")))
        receiver = AlertReceiver()
        url = stack.enter_context(receiver.listening())
        # A broker whose events are rare must not be fenced by the controller itself.
        lab = stack.enter_context(Lab(folder / "lab", brokers=1, properties={"broker.session.timeout.ms": "60000"}))
        job = stack.enter_context(
            JobProcess(
                folder=folder / "watch",
                bootstrap=lab.bootstrap,
                settings={"broker-fenced.hold": 0, "broker-fenced.clear": 0},
                arguments=["--sink", f"webhook:{url}"],
            )
        )
        leader = lab.await_state(lambda _: True, what="a leader").leader_id
        port = lab.node(leader).controller_port
        assert port is not None
        brokers = [stack.enter_context(FencedBroker(id=id_, cluster_id=lab.cluster_id, port=port)) for id_ in BROKERS]
        time.sleep(WARM_UP_S)
        _change((broker, False) for broker in brokers)
        _change(islice(changes(brokers), _WARM_UP_EVENTS))
        with BatchTimes(Checkpoint(folder=job.checkpoint)) as times:
            began_ms = time.time_ns() // 1_000_000
            commits = _change(islice(changes(brokers), events))
            _await_delivery(receiver, began_ms, events)
            time.sleep(_COMMIT_S)
        rows = _records(JournalReader(job.checkpoint / "journal"), began_ms)
        recorded = recorded_ms(Checkpoint(folder=job.checkpoint).ledger)
    latencies, steps = step_times(receiver.calls, rows, times, recorded)
    assert len(latencies) > 0.9 * events, f"{len(latencies)} of {events} events were matched"
    return {
        "events": len(latencies),
        "latency_ms": percentiles(latencies),
        "admin_call_ms": percentiles(commits),
        "steps_ms": {name: percentiles(values) for name, values in steps.items()},
        "spark_floor_ms": spark_floor.measure(floor_rows),
        "distribution_ms": distribution(latencies),
    }


def changes(brokers: Sequence[_T]) -> Iterator[tuple[_T, bool]]:
    """Yields what to do to brokers that are all unfenced, without end: one is fenced, then unfenced, then the next."""
    return cycle((broker, fenced) for broker in brokers for fenced in (True, False))


def _change(planned: Iterable[tuple[FencedBroker, bool]]) -> list[float]:
    """Fences and unfences brokers, each after a pause; returns how long each call took, in ms."""
    took: list[float] = []
    chooser = random.Random(7)
    for broker, fenced in planned:
        time.sleep(chooser.uniform(*PAUSE_S))
        began = time.monotonic()
        broker.set_fenced(fenced)
        took.append(1000 * (time.monotonic() - began))
    return took


def _await_delivery(receiver: AlertReceiver, began_ms: int, events: int) -> None:
    deadline = time.monotonic() + _DELIVERY_S
    while sum(call.observed_ms >= began_ms for call in receiver.calls) < events and time.monotonic() < deadline:
        time.sleep(0.1)


def _records(journal: JournalReader, began_ms: int) -> dict[Change, tuple[int, int]]:
    """Returns the record's time in ms and the row's sequence, by time of the row, broker and fenced."""
    return {
        (row.observed_at_ms, event.id, event.fenced): (event.at.timestamp_ms, row.sequence)
        for row in journal.read(journal.first_sequence(), journal.published_end())
        if row.kind is ObservationKind.RECORDS and row.observed_at_ms >= began_ms
        for event in decode_observation(row).events()
        if isinstance(event, BrokerChanged) and event.fenced is not None
    }


def recorded_ms(ledger: Path) -> dict[Change, int]:
    """Returns when the driver had each alert: the time at which it wrote the alert to the ledger."""
    records = map(from_line, ledger.read_bytes().splitlines())
    return {
        (each.alert.observed_at_ms, int(str(each.alert.evidence["broker"])), each.alert.state is AlertState.FIRING): (
            each.recorded_at_ms
        )
        for each in records
        if isinstance(each, AlertRecorded) and each.alert.rule == _RULE
    }


def step_times(
    calls: Sequence[SinkCalled],
    rows: Mapping[Change, tuple[int, int]],
    times: BatchTimes,
    recorded: Mapping[Change, int],
) -> tuple[list[float], dict[str, list[float]]]:
    """Returns the latency of each event, and what each step took, in ms.

    Args:
        calls: of the sink.
        rows: the record's time in ms and the row's sequence.
        times: of the batches.
        recorded: when the driver had the alert, in ms.
    """
    batches = times.batches()
    latencies: list[float] = []
    steps: dict[str, list[float]] = {name: [] for name in STEPS}
    for call in calls:
        change = (call.observed_ms, call.broker, call.fenced)
        record, driver_ms = rows.get(change), recorded.get(change)
        found = None if record is None else batch_of(record[1], batches)
        if record is None or found is None or driver_ms is None:
            continue
        batch, before = found
        published = max(times.published(record[1]), call.observed_ms / 1000)
        # A file's time may be one tick early.
        free = min(max(before.committed, published), batch.planned)
        moments = [
            record[0] / 1000,
            call.observed_ms / 1000,
            published,
            free,
            batch.planned,
            batch.stepped,
            driver_ms / 1000,
            call.sent_ms / 1000,
            call.at,
        ]
        latencies.append(1000 * (moments[-1] - moments[0]))
        for name, start, end in zip(STEPS, moments, moments[1:], strict=False):
            steps[name].append(1000 * (end - start))
    return latencies, steps


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the figures as JSON."""
    parser = argparse.ArgumentParser(description="The latency of an alert.")
    parser.add_argument("--events", type=int, default=510)
    parser.add_argument("--floor-rows", type=int, default=30)
    options = parser.parse_args(arguments)
    found = figures(options.events, options.floor_rows)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
