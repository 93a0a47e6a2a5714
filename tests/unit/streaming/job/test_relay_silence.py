"""A cluster whose relay sends no rows is an alert; one whose rows were not read yet is not."""

from collections.abc import Sequence

from rules.alert import Alert
from rules.model.identifiers import Millis
from streaming.job.relay_silence import RelaySilence

CLUSTERS = ("a", "b")


class Watched:
    """A silence of two clusters, on a clock that the test moves."""

    def __init__(self, firing: Sequence[Alert] = ()) -> None:
        self.now = 1_000.0
        self.silence = RelaySilence(firing, clock=lambda: self.now)

    def after(
        self, seconds: float, *arrived: str, waits: bool = True, clusters: Sequence[str] = CLUSTERS
    ) -> list[tuple[str, str]]:
        self.now += seconds
        self.silence.rows_arrived(arrived)
        now_ms = Millis(round(1000 * self.now))
        alerts = self.silence.due(clusters, now_ms, waits_for_data=waits)
        return [(alert.subject, alert.state.value) for alert in alerts]


def test_alert_fires_once_after_a_minute_and_resolves_with_the_next_row() -> None:
    watched = Watched()

    assert watched.after(0, "a", "b") == []
    assert watched.after(59, "b") == []
    assert watched.after(1, "b") == [("relay of a", "firing")]
    assert watched.after(60, "b") == []
    assert watched.after(1, "a", "b") == [("relay of a", "resolved")]
    assert watched.after(60, "b") == [("relay of a", "firing")]


def test_a_cluster_without_any_row_since_the_start_is_silent() -> None:
    watched = Watched()

    assert watched.after(0) == []
    assert watched.after(60) == [("relay of a", "firing"), ("relay of b", "firing")]


def test_rows_that_are_not_read_yet_are_no_silence() -> None:
    watched = Watched()
    watched.after(0, "a", "b")

    assert watched.after(600, waits=False) == []
    assert watched.after(1, "a", "b", waits=False) == []
    assert watched.after(1, waits=True) == []


def test_alert_of_a_cluster_that_is_no_longer_monitored_is_resolved() -> None:
    watched = Watched()
    watched.after(0, "b")
    assert watched.after(60, "b") == [("relay of a", "firing")]

    assert watched.after(1, "b", clusters=["b"]) == [("relay of a", "resolved")]


def test_firing_alert_of_the_ledger_is_continued() -> None:
    first = Watched()
    first.after(0, "b")
    first.after(60, "b")
    watched = Watched(firing=list(first.silence.firing.values()))

    assert watched.after(100, "b") == []
    assert watched.after(1, "a", "b") == [("relay of a", "resolved")]
