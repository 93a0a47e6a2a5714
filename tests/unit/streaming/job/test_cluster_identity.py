from dataclasses import replace
from pathlib import Path

import pytest

from connectors.errors import ObservationError, UsageError
from connectors.kafka.cluster_connection import ClusterConnection
from rules.model.monitoring import Reason
from streaming.job.cluster_identity import ClusterIds, Identify, identify_clusters, record_ids
from streaming.pipeline.checkpoint import Checkpoint

PROD = ClusterConnection(name="prod", bootstrap=(("c1", 9093),))


def answers(cluster_id: str) -> Identify:
    return lambda cluster, timeout_s: cluster_id


def does_not_answer(cluster: ClusterConnection, timeout_s: float) -> str:
    raise ObservationError(Reason.UNRESOLVABLE, "c1 does not resolve")


def test_a_new_checkpoint_takes_the_id_that_the_cluster_answers() -> None:
    assert identify_clusters([PROD], {}, answers("MkU3OEVBNTcwNTJENDM2Qg")).require_all() == {
        "prod": "MkU3OEVBNTcwNTJENDM2Qg"
    }


def test_a_recorded_cluster_that_answers_with_its_id_is_accepted() -> None:
    assert identify_clusters([PROD], {"prod": "A"}, answers("A")).require_all() == {"prod": "A"}


def test_a_recorded_cluster_that_does_not_answer_is_monitored() -> None:
    assert identify_clusters([PROD], {"prod": "A"}, does_not_answer).require_all() == {"prod": "A"}


def test_a_new_cluster_that_does_not_answer_is_refused_with_the_reason() -> None:
    with pytest.raises(
        UsageError, match=r"cluster prod: none of c1:9093 could be queried \(c1 does not resolve\) and .*no recorded"
    ):
        identify_clusters([PROD], {}, does_not_answer).require_all()


def test_a_configured_cluster_id_is_enough_where_the_disk_is_new_and_the_cluster_is_down() -> None:
    configured = replace(PROD, cluster_id="A")

    identified = identify_clusters([configured], {}, does_not_answer)

    assert identified.require_all() == {"prod": "A"}
    assert identified.confirmed == {}, "a wrong one can still be corrected"
    assert identify_clusters([configured], {}, answers("A")).confirmed == {"prod": "A"}
    assert identify_clusters([configured], {"prod": "A"}, does_not_answer).confirmed == {"prod": "A"}


@pytest.mark.parametrize("reason", [Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED])
def test_a_cluster_that_answers_and_refuses_the_login_is_not_down(reason: Reason) -> None:
    def refuses(cluster: ClusterConnection, timeout_s: float) -> str:
        raise ObservationError(reason, "refused")

    with pytest.raises(UsageError, match=r"could be queried \(refused\) .*; correct the [^;]*\)$"):
        identify_clusters([replace(PROD, cluster_id="A")], {}, refuses).require_all()


def test_of_several_clusters_only_the_unavailable_one_is_left_out() -> None:
    def one_does_not_answer(cluster: ClusterConnection, timeout_s: float) -> str:
        return "A" if cluster is PROD else does_not_answer(cluster, timeout_s)

    new = ClusterConnection(name="new", bootstrap=(("n1", 9093),))
    identified = identify_clusters([new, PROD], {}, one_does_not_answer)
    assert (identified.ids, list(identified.unavailable)) == ({"prod": "A"}, ["new"])


def test_of_several_clusters_one_that_another_cluster_answers_for_does_not_stop_the_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was created again, or its address is another cluster's by now: the gatherer refuses what answers there."""
    again = ClusterConnection(name="again", bootstrap=(("n1", 9093),))
    identified = identify_clusters([again, PROD], {"again": "OLD", "prod": "A"}, answers("A"))
    assert identified.require_all() == {"again": "OLD", "prod": "A"}
    assert "cluster again: n1:9093 answers as cluster A, but this checkpoint belongs to cluster OLD" in caplog.text
    with pytest.raises(UsageError, match="cluster prod: c1:9093 answers as cluster B"):
        identify_clusters([again, PROD], {"again": "OLD", "prod": "A"}, answers("B"))


def test_a_controller_too_old_to_name_its_cluster_id_needs_it_configured() -> None:
    def is_old(cluster: ClusterConnection, timeout_s: float) -> str:
        raise ObservationError(Reason.UNSUPPORTED, "the node does not support this request")

    assert identify_clusters([PROD], {"prod": "A"}, is_old).require_all() == {"prod": "A"}
    with pytest.raises(
        UsageError,
        match=r"no controller before Kafka 3\.7 can\): set cluster_id in a --config file; .* meta\.properties$",
    ):
        identify_clusters([PROD], {}, is_old).require_all()


@pytest.mark.kip("D034")
def test_another_cluster_at_the_same_address_is_refused() -> None:
    with pytest.raises(UsageError, match=r"answers as cluster B, but this checkpoint belongs to cluster A; nothing"):
        identify_clusters([PROD], {"prod": "A"}, answers("B")).require_all()


@pytest.mark.kip("D034")
@pytest.mark.parametrize("recorded", [{}, {"prod": "A"}])
def test_another_cluster_than_the_configured_one_is_refused(recorded: dict[str, str]) -> None:
    def is_of_another_cluster(cluster: ClusterConnection, timeout_s: float) -> str:
        raise ObservationError(Reason.WRONG_CLUSTER, "c1 belongs to cluster B")

    with pytest.raises(UsageError, match=r"c1:9093 is not cluster A \(.*to cluster B\); nothing was changed"):
        identify_clusters([replace(PROD, cluster_id="A")], recorded, is_of_another_cluster)


@pytest.mark.parametrize(
    ("reason", "detail", "fix"),
    [
        (Reason.DENIED, "DescribeCluster needs ALTER", "set cluster_id"),
        (Reason.NOT_AUTHENTICATED, "the node rejected the login", "the node rejected the login.*correct the login"),
        (
            Reason.TLS_FAILED,
            "the node's certificate has expired",
            "the node's certificate has expired.*correct the TLS settings",
        ),
        (Reason.TIMED_OUT, "the node did not answer in time", "check the addresses"),
    ],
)
def test_each_reason_is_named_with_its_fix(reason: Reason, detail: str, fix: str) -> None:
    def fails(cluster: ClusterConnection, timeout_s: float) -> str:
        raise ObservationError(reason, detail)

    with pytest.raises(UsageError, match=fix):
        identify_clusters([PROD], {}, fails).require_all()


def test_the_ids_of_clusters_that_are_not_configured_now_stay_recorded(tmp_path: Path) -> None:
    checkpoint = Checkpoint(folder=tmp_path)
    answered = ClusterIds(ids={"prod": "A", "new": "B"}, unavailable={}, unconfirmed=frozenset({"new"}))
    assert record_ids(checkpoint, {"former": "C"}, answered) == {"former": "C", "prod": "A", "new": "B"}
    assert Checkpoint(folder=tmp_path).cluster_ids() == {"former": "C", "prod": "A"}


def test_a_cluster_that_is_configured_twice_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    answered = ClusterIds(ids={"eu": "A", "us": "B", "asia": "A"}, unavailable={})
    record_ids(Checkpoint(folder=tmp_path), {}, answered)
    (warning,) = caplog.messages
    assert warning.startswith("cluster asia is cluster A, as cluster eu is: every alert is sent twice")
