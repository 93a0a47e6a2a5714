"""How a description writes values: times in seconds since the start of the scenario, unknown ones as `unknown`."""

from collections.abc import Iterable
from typing import NamedTuple

from rules.model.identifiers import Endpoint, ReplicaKey
from rules.model.membership import FeatureRange, RecordPosition, Voter


class Fact(NamedTuple):
    """One fact of a quorum. `subject` is what it is about, as `voter 2`: it stays when the fact changes."""

    subject: str
    sentence: str


class Times:
    """Writes times. Those of records are of the log's clock, all others of the gatherer's unless the text says so."""

    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms

    def at(self, time_ms: int | None) -> str:
        """Returns `2.5 s`: the time since the start."""
        return "unknown" if time_ms is None else seconds(time_ms - self._start_ms)

    def span(self, first_ms: int, last_ms: int | None) -> str:
        """Returns `from 2 s to 5 s`, or `from 2 s` while it lasts."""
        return f"from {self.at(first_ms)}" + ("" if last_ms is None else f" to {self.at(last_ms)}")

    def record(self, offset: int, time_ms: int | None, epoch: int | None = None, *, of: str = "") -> str:
        """Returns `record 3 in epoch 1 at 2 s`."""
        return f"record {offset}{of}{'' if epoch is None else f' in epoch {epoch}'} at {self.at(time_ms)}"

    def position(self, at: RecordPosition) -> str:
        """Returns `record 3 in epoch 1 at 2 s`, or `record 3 of a snapshot in epoch 1 at 2 s`."""
        return self.record(at.offset, at.timestamp_ms, at.leader_epoch, of=" of a snapshot" if at.snapshot else "")


def seconds(duration_ms: int) -> str:
    """Returns `0.02 s`."""
    return f"{duration_ms / 1_000:.3f}".rstrip("0").rstrip(".") + " s"


def known(value: object | None) -> str:
    """Returns the value as text; `unknown` for None."""
    return "unknown" if value is None else str(value)


def listed(values: Iterable[object] | None) -> str:
    """Returns `101, 102`; `none` if there are none."""
    return "unknown" if values is None else ", ".join(map(str, values)) or "none"


def keys(of: Iterable[ReplicaKey]) -> str:
    """Returns `1-a, 2-b`."""
    return listed(of)


def endpoints(of: Iterable[Endpoint]) -> str:
    """Returns `c1:9093, INTERNAL://c9:9093 (SSL)`: the listener CONTROLLER is not written."""
    return (
        ", ".join(
            ("" if each.listener == "CONTROLLER" else f"{each.listener}://")
            + str(each)
            + ("" if each.protocol is None else f" ({each.protocol})")
            for each in of
        )
        or "no endpoint"
    )


def voter(one: Voter) -> str:
    """Returns `2-b at c2:9093 supports kraft.version 0-1`."""
    versions = "" if one.kraft_versions is None else f" supports {one.kraft_versions}"
    return f"{one.key} at {endpoints(one.endpoints)}{versions}"


def supported(features: Iterable[FeatureRange], since_ms: int | None, registered_ms: int, times: Times) -> list[str]:
    """Returns `supports metadata.version 7-29 since 3 s`; the time only if it is not that of the registration."""
    since = [] if since_ms == registered_ms else [f"since {times.at(since_ms)}"]
    text = " ".join([*(["supports " + listed(features)] if features else []), *since])
    return [text] if text else []
