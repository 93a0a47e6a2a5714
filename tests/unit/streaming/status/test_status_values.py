"""Fields of `status --json` that no situation of `views` shows, and those of `replication` and `partitions --json`."""

import pytest

from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from tests.situation.commands import described
from tests.situation.situation import NOW
from tests.unit.streaming.status.situation_views import SITUATIONS
from tests.unit.streaming.status.statuses import partitions, replication, status

"""The values of each situation: `make goldens` rewrites them."""


def test_failure_without_an_address_has_no_endpoint() -> None:
    made = described(())
    nowhere = FailedObservation(source=ObservationSource.LOG, endpoint="", reason=Reason.UNRESOLVABLE, detail="")
    made.fail(nowhere, since_ms=NOW, until_ms=NOW)

    assert status(made.quorum)["failing"] == [{"source": "log", "endpoint": None, "reason": "unresolvable"}]


@pytest.mark.parametrize("name", SITUATIONS)
def test_replication_and_partitions_have_the_values_of_the_whole_status(name: str) -> None:
    whole = status(SITUATIONS[name])
    head = ["cluster", "cluster_id", "source", "age_ms", "observed_at", "recorded_at", "missing"]

    for of_part, own in (
        (replication(SITUATIONS[name]), ["leader_id", "leader_epoch", "described_at", "replicas"]),
        (partitions(SITUATIONS[name]), ["recovering"]),
    ):
        assert [*of_part] == [*head, *own]
        assert of_part.items() <= whole.items()
