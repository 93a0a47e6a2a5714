"""A cluster whose relay sends no rows is an alert; one whose rows were not read yet is not."""

from collections.abc import Sequence

from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.route import Route
from streaming.job.own_alerts import OwnAlerts, RelaySilence

CLUSTERS = ("a", "b")


class Watched:
    """A silence of two clusters, on a clock that the test moves."""

    def __init__(self, firing: Sequence[Alert] = ()) -> None:
        self.now = 1_000.0
        self.silence = RelaySilence(firing, clock=lambda: self.now)

    def after(
        self, seconds: float, *arrived: str, read_s_ago: float | None = 0, clusters: Sequence[str] = CLUSTERS
    ) -> list[tuple[str, str]]:
        """Returns the transitions; `read_s_ago` is how long ago the topic of both was read to its end, if it was."""
        self.now += seconds
        self.silence.rows_arrived(arrived)
        now_ms = Millis(round(1000 * self.now))
        read = {"other": 0.0} if read_s_ago is None else {"t": read_s_ago}
        alerts = self.silence.due(dict.fromkeys(clusters, "t"), now_ms, read_s_ago=read)
        return [(alert.subject, alert.state.value) for alert in alerts]


def test_alert_fires_once_after_a_minute_and_resolves_with_the_next_row() -> None:
    watched = Watched()

    assert watched.after(0, "a", "b") == []
    assert watched.after(59, "b") == []
    assert watched.after(1, "b") == [("relay of a", "firing")]
    assert watched.after(60, "b") == []
    assert watched.after(1, "a", "b") == [("relay of a", "resolved")]
    assert watched.after(60, "b") == [("relay of a", "firing")]


def test_alert_is_sent_like_the_alerts_of_its_cluster() -> None:
    """A pager of the production clusters is not for the relay of a test cluster."""
    watched = Watched()
    watched.after(0)
    watched.after(60)
    route = Route(clusters=("a",))

    assert {name: route.matches(alert) for name, alert in watched.silence.firing.items()} == {"a": True, "b": False}


def test_a_cluster_without_any_row_since_the_start_is_silent() -> None:
    watched = Watched()

    assert watched.after(0) == []
    assert watched.after(60) == [("relay of a", "firing"), ("relay of b", "firing")]


def test_rows_that_are_not_read_yet_are_no_silence() -> None:
    watched = Watched()
    watched.after(0, "a", "b")

    assert watched.after(600, read_s_ago=None) == []
    assert watched.after(1, "a", "b", read_s_ago=None) == []
    assert watched.after(1) == []


def test_a_relay_is_silent_while_other_relays_keep_the_query_busy() -> None:
    """The query never waits for data; each batch reads all that was there when it began."""
    watched = Watched()
    watched.after(0, "a", "b")

    assert watched.after(40, "b", read_s_ago=2) == []
    assert watched.after(21, "b", read_s_ago=2) == []
    assert watched.after(1, "b", read_s_ago=2) == [("relay of a", "firing")]


def test_alert_of_a_cluster_that_is_no_longer_monitored_is_resolved() -> None:
    watched = Watched()
    watched.after(0, "b")
    assert watched.after(60, "b") == [("relay of a", "firing")]

    assert watched.after(1, "b", clusters=["b"]) == [("relay of a", "resolved")]


def test_alert_ends_when_the_job_of_a_store_gathers_itself() -> None:
    """A job on PostgreSQL keeps its alerts when it gets another source and a new checkpoint."""
    before = Watched()
    before.after(0, "b")
    assert before.after(60, "b") == [("relay of a", "firing")]
    own = OwnAlerts(list(before.silence.firing.values()))
    assert own.resend

    ended = own.due({}, {})

    assert [(alert.subject, alert.state.value) for alert in ended] == [("relay of a", "resolved")]
    assert not own.resend


def test_a_cluster_that_is_added_again_is_not_silent_at_once() -> None:
    watched = Watched()
    watched.after(0, "a", "b")
    assert watched.after(300, "b", clusters=["b"]) == []

    assert watched.after(1, "b") == []
    assert watched.after(59, "b") == []
    assert watched.after(1, "b") == [("relay of a", "firing")]


def test_firing_alert_of_the_ledger_is_continued() -> None:
    first = Watched()
    first.after(0, "b")
    first.after(60, "b")
    watched = Watched(firing=list(first.silence.firing.values()))

    assert watched.after(100, "b") == []
    assert watched.after(1, "a", "b") == [("relay of a", "resolved")]
