"""A damaged ledger is noticed, kept, and restored from the alerts in Spark's state: no pending alert is lost."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.delivery.ledger_file import END_SUFFIX, KEPT
from connectors.delivery.ledger_restoration import EvaluatedCluster
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert

ENDED, RESOLVED = alert("ended"), alert("ended", resolved=True, observed_at_ms=Millis(NOON_MS + 9_000))
PENDING, SENT = alert("pending"), alert("sent")
EVALUATED_MS = Millis(NOON_MS + 60_000)
STATE = (EvaluatedCluster(cluster="alpha", now_ms=EVALUATED_MS, firing=(PENDING, SENT)),)
"""What is firing in Spark's state when `written` is complete."""


def written(path: Path) -> bytes:
    """Writes a ledger with a pending critical alert, a sent one, and one whose end is pending; returns its content."""
    ledger = Ledger(path)
    ledger.add_sink("a")
    ledger.record([ENDED], NOON_MS)
    ledger.mark_delivered("a", [ENDED.key])
    ledger.record([PENDING, SENT], NOON_MS)
    ledger.mark_delivered("a", [SENT.key])
    ledger.record([RESOLVED], NOON_MS)
    ledger.close()
    return path.read_bytes()


def reopened(path: Path) -> Ledger:
    ledger = Ledger(path, must_exist=True)
    ledger.add_sink("a")
    return ledger


def states(alerts: Sequence[Alert]) -> set[tuple[str, AlertState]]:
    return {(each.subject, each.state) for each in alerts}


def assert_restored(path: Path, damaged: bytes | None, *, end_known: bool = True) -> None:
    """Replaces the ledger's content (None: deletes it) and asserts that the damage is noticed and restored."""
    for kept in path.parent.glob("*.damaged-*"):
        kept.unlink()
    if damaged is None:
        path.unlink()
    else:
        path.write_bytes(damaged)
    ledger = reopened(path)
    assert ledger.damage is not None
    if damaged is not None:
        assert path.with_name(path.name + ".damaged-1").read_bytes() == damaged
    ledger.restore(STATE, NOON_MS)
    assert ledger.damage is None
    assert states(ledger.firing()) == {("pending", AlertState.FIRING), ("sent", AlertState.FIRING)}
    assert ("pending", AlertState.FIRING) in states(ledger.pending("a"))
    if damaged and b'"subject":"ended"' in damaged:
        ended = [each for each in ledger.history() if each.subject == "ended"]
        assert not ended or ended[-1].state is AlertState.RESOLVED
    ledger.close()
    again = Ledger(path, must_exist=True)
    assert again.damage is None
    assert ("pending", AlertState.FIRING) in states(again.pending("a"))
    again.close()


def test_an_intact_ledger_is_not_damaged(tmp_path: Path) -> None:
    written(tmp_path / "ledger")
    ledger = reopened(tmp_path / "ledger")
    assert (ledger.damage, ledger.damages) == (None, [])
    assert ledger.restore(STATE, NOON_MS) == ()
    assert list(tmp_path.glob("*.damaged-*")) == []


@pytest.mark.parametrize("bit", [0, 7])
def test_a_flipped_bit_at_any_place_is_noticed_and_restored(tmp_path: Path, bit: int) -> None:
    path = tmp_path / "ledger"
    for at in range(0, len(written(path)), 7):
        path.unlink()
        (tmp_path / ("ledger" + END_SUFFIX)).unlink()
        content = bytearray(written(path))
        content[at] ^= 1 << bit
        assert_restored(path, bytes(content))


def test_a_removed_line_is_noticed_and_restored(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    for at in range(len(written(path).splitlines())):
        lines = written(path).splitlines(keepends=True)
        assert_restored(path, b"".join(lines[:at] + lines[at + 1 :]))
        path.unlink()
        (tmp_path / ("ledger" + END_SUFFIX)).unlink()


def test_a_truncated_emptied_or_deleted_ledger_is_noticed_and_restored(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    for cut in (*range(0, len(written(path)) - 1, 11), None):
        content = written(path)
        assert_restored(path, None if cut is None else content[:cut])
        path.unlink()
        (tmp_path / ("ledger" + END_SUFFIX)).unlink()


def test_an_exchanged_or_added_line_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    lines = written(path).splitlines(keepends=True)
    assert_restored(path, b"".join([*lines[:2], lines[3], lines[2], *lines[4:]]))
    lines = path.read_bytes().splitlines(keepends=True)
    assert_restored(path, b"".join([*lines, lines[-1]]))


def test_an_older_copy_of_the_ledger_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    ledger.add_sink("a")
    older = path.read_bytes()
    ledger.close()
    written(path)
    assert_restored(path, older)


def test_a_line_that_a_killed_process_did_not_finish_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    content, end = written(path), (tmp_path / ("ledger" + END_SUFFIX)).read_bytes()
    ledger = reopened(path)
    rewritten = path.read_bytes()
    end = (tmp_path / ("ledger" + END_SUFFIX)).read_bytes()
    ledger.record([alert("unfinished")], NOON_MS)
    ledger.close()
    content = path.read_bytes()
    for cut in range(len(rewritten), len(content)):
        # The process was killed before it confirmed the line.
        path.write_bytes(content[:cut])
        (tmp_path / ("ledger" + END_SUFFIX)).write_bytes(end)
        again = reopened(path)
        assert again.damage is None
        assert states(again.pending("a")) >= {("pending", AlertState.FIRING), ("ended", AlertState.RESOLVED)}
        again.close()
    assert list(tmp_path.glob("*.damaged-*")) == []


def test_a_lost_or_torn_number_of_the_last_line_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    end = tmp_path / ("ledger" + END_SUFFIX)
    written(path)
    for content in (None, b"", b"\x00" * 600):
        if content is None:
            end.unlink()
        else:
            end.write_bytes(content)
        ledger = reopened(path)
        assert ledger.damage is None
        assert states(ledger.firing()) == {("pending", AlertState.FIRING), ("sent", AlertState.FIRING)}
        ledger.close()
        # From here on the number is known again.
        whole = path.read_bytes()
        assert_restored(path, b"".join(whole.splitlines(keepends=True)[:-1]))


def test_damage_that_was_not_restored_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    written(path)
    path.write_bytes(b"")
    reopened(path).close()

    ledger = reopened(path)
    assert ledger.damage is not None
    assert ledger.damage.reason == "no line of it is intact"
    assert list(ledger.restore(STATE, NOON_MS)) == [PENDING, SENT]
    ledger.close()
    assert reopened(path).damage is None


def test_a_transition_of_a_batch_that_spark_repeats_stays(tmp_path: Path) -> None:
    """The ledger has transitions of the batch after the state: Spark repeats it, and records nothing twice."""
    path = tmp_path / "ledger"
    written(path)
    ledger = reopened(path)
    newer = alert("newer", observed_at_ms=Millis(EVALUATED_MS + 1))
    over = alert("sent", resolved=True, observed_at_ms=Millis(EVALUATED_MS + 1))
    ledger.record([newer, over], NOON_MS)
    ledger.close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:1], *lines[2:]]))

    again = reopened(path)
    again.restore(STATE, NOON_MS)

    assert states(again.firing()) == {("pending", AlertState.FIRING), ("newer", AlertState.FIRING)}
    assert again.record([newer, over], NOON_MS) == ()


def test_a_change_of_severity_whose_line_is_lost_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    ledger.add_sink("a")
    milder = alert("pending", severity=Severity.WARNING)
    ledger.record([milder], NOON_MS)
    ledger.mark_delivered("a", [milder.key])
    whole = path.read_bytes()
    ledger.record([PENDING], NOON_MS)
    ledger.close()
    path.write_bytes(whole)

    again = reopened(path)
    again.restore([EvaluatedCluster(cluster="alpha", now_ms=EVALUATED_MS, firing=(PENDING,))], NOON_MS)

    assert again.pending("a") == [PENDING]


@pytest.mark.parametrize("how", ["deleted", "emptied", "replaced", "longer"])
def test_damage_while_the_job_runs_loses_nothing_and_sends_nothing_twice(tmp_path: Path, how: str) -> None:
    path = tmp_path / "ledger"
    sink = RecordingSink()
    ledger = Ledger(path)
    dispatcher = Dispatcher(ledger, [sink], deadline_s=30, patience_s=30)
    dispatcher.deliver([SENT], NOON_MS)
    match how:
        case "deleted":
            path.unlink()
        case "emptied":
            path.write_bytes(b"")
        case "replaced":
            other = tmp_path / "other"
            other.write_bytes(path.read_bytes())
            other.replace(path)
        case _:
            path.write_bytes(path.read_bytes() + b"x")

    dispatcher.deliver([PENDING], NOON_MS)
    dispatcher.deliver([], NOON_MS)

    ledger.close()
    again = Ledger(path)
    assert again.damage is None
    assert states(again.firing()) >= {("pending", AlertState.FIRING), ("sent", AlertState.FIRING)}
    assert [each.subject for each in sink.transitions] == ["sent", "pending", "ledger"]
    again.close()


def test_a_bit_that_flips_while_the_job_runs_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    sink = RecordingSink()
    ledger = Ledger(path)
    dispatcher = Dispatcher(ledger, [sink], deadline_s=30, patience_s=30)
    dispatcher.deliver([SENT], NOON_MS)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))

    dispatcher.deliver([], Millis(NOON_MS + 61_000))
    dispatcher.deliver([], Millis(NOON_MS + 122_000))

    ledger.close()
    assert (tmp_path / "ledger.damaged-1").read_bytes() == bytes(content)
    assert not (tmp_path / "ledger.damaged-2").exists()
    again = Ledger(path)
    assert again.damage is None
    assert [each.subject for each in sink.transitions] == ["sent", "ledger"]
    again.close()


def test_a_program_that_keeps_changing_the_ledger_does_not_fill_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    ledger.add_sink("a")
    for at in range(KEPT + 3):
        path.write_bytes(b"")
        ledger.record([alert(str(at))], NOON_MS)
    ledger.close()

    assert len(list(tmp_path.glob("*.damaged-*"))) == KEPT
    assert [each.kept_as for each in ledger.damages[-4:]] == [f"ledger.damaged-{KEPT}", None, None, None]
    assert len(Ledger(path).history()) == KEPT + 3


def test_damage_is_alerted_and_resolves(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    written(path)
    path.write_bytes(b"")
    sink = RecordingSink("a")
    ledger = Ledger(path)
    dispatcher = Dispatcher(ledger, [sink], deadline_s=30, patience_s=30)
    ledger.restore(STATE, NOON_MS)

    dispatcher.deliver([], NOON_MS)
    dispatcher.deliver([], Millis(NOON_MS + 1_900_000))
    dispatcher.deliver([], Millis(NOON_MS + 1_900_000))

    own = [each for each in sink.transitions if each.cluster_id == JOB_CLUSTER_ID]
    assert [(each.rule, each.state.value) for each in own] == [
        ("data-contract-broken", "firing"),
        ("data-contract-broken", "resolved"),
    ]
    assert "no line of it is intact" in own[0].summary
    assert {each.subject for each in sink.transitions} == {"pending", "sent", "ledger"}
