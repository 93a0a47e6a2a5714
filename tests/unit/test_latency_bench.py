"""The events of `make bench ONLY=latency`, and the share of each step that it reads from a checkpoint."""

from itertools import islice
from pathlib import Path

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from connectors.sinks.sink import DeliveryMode
from rules.finding import Severity
from rules.model.identifiers import Millis
from streaming.pipeline.checkpoint import Checkpoint
from tests.bench.batch_times import BatchTimes
from tests.bench.latency_bench import BROKERS, STEPS, SinkCalled, changes, recorded_ms, step_times
from tests.eventually import eventually
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert
from tests.unit.test_batch_times import write_batch

EVENTS = 100
APART_MS = 400


def dispatcher_of(ledger: Path, sink: RecordingSink) -> Dispatcher:
    return Dispatcher(Ledger(ledger), [sink], deadline_s=30, patience_s=30)


def test_each_event_is_a_notification_of_its_own(tmp_path: Path) -> None:
    # Another alert of an open incident would be collected for a minute, and its latency would be that wait.
    sink = RecordingSink(mode=DeliveryMode.INCIDENTS)
    dispatcher = dispatcher_of(tmp_path / "ledger", sink)
    fenced_at: dict[int, Millis] = {}
    for number, (broker, fenced) in enumerate(islice(changes(BROKERS), EVENTS)):
        now_ms = Millis(NOON_MS + number * APART_MS)
        if fenced:
            fenced_at[broker] = now_ms
        transition = alert(
            f"broker {broker}",
            rule="broker-fenced",
            severity=Severity.WARNING,
            started_at_ms=fenced_at[broker],
            resolved=not fenced,
            observed_at_ms=now_ms,
        )
        dispatcher.deliver([transition], now_ms)

        assert sink.transitions[number:] == [transition]


def test_wait_for_the_notification_is_a_step_of_its_own(tmp_path: Path) -> None:
    checkpoint = Checkpoint(folder=tmp_path)
    at = NOON_MS // 1000
    with JournalWriter(checkpoint.journal) as journal:
        write_batch(checkpoint, 0, end=1, at=at - 10)
        write_batch(checkpoint, 1, end=2, at=at)
        with BatchTimes(checkpoint) as times:
            row = Observation(cluster="a", kind=ObservationKind.RECORDS, observed_at_ms=1, payload=b"")
            journal.append([row, row])
            journal.publish()
            eventually(lambda: times.published(1) < float("inf"), within_s=10)
    observed_ms = at * 1000 - 40
    fired = alert("broker 901", rule="broker-fenced", evidence={"broker": 901}, observed_at_ms=observed_ms)
    dispatcher_of(checkpoint.ledger, RecordingSink()).deliver([fired], Millis(at * 1000 + 1_020))
    call = SinkCalled(broker=901, fenced=True, observed_ms=observed_ms, sent_ms=at * 1000 + 1_720, at=at + 1.725)
    latencies, steps = step_times(
        [call], {(observed_ms, 901, True): (observed_ms - 30, 1)}, times, recorded_ms(checkpoint.ledger)
    )

    assert [round(each) for each in latencies] == [1_795]
    assert {name: [round(each) for each in steps[name]] for name in STEPS[-4:]} == {
        "planned -> state written": [1_000],
        "state written -> driver": [20],
        "driver -> notification due": [700],
        "notification due -> sink called": [5],
    }
