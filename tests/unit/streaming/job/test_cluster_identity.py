from dataclasses import replace
from pathlib import Path

import pytest

from connectors.errors import ObservationError, UsageError
from connectors.kafka.cluster_connection import ClusterConnection
from rules.model.monitoring import Reason
from streaming.config import Config
from streaming.job.cluster_identity import ClusterIds, Identify, identify_clusters, record_ids
from streaming.job.running import JobSpec
from streaming.pipeline.checkpoint import Checkpoint

PROD = ClusterConnection(name="prod", bootstrap=(("c1", 9093),))


def answers(cluster_id: str) -> Identify:
    return lambda cluster, timeout_s: cluster_id


def fails(reason: Reason, detail: str = "") -> Identify:
    def failing(cluster: ClusterConnection, timeout_s: float) -> str:
        raise ObservationError(reason, detail)

    return failing


DOES_NOT_ANSWER = fails(Reason.UNRESOLVABLE, "c1 does not resolve")
OLD = fails(Reason.UNSUPPORTED, "the node does not support this request")

ANSWERS = {
    Reason.WRONG_CLUSTER,
    Reason.WRONG_PROTOCOL,
    Reason.NOT_AUTHENTICATED,
    Reason.TLS_FAILED,
    Reason.DENIED,
    Reason.UNSUPPORTED,
}
"""What a node answers until a person corrects something."""


@pytest.mark.parametrize(
    ("cluster", "recorded", "identify"),
    [
        (PROD, {}, answers("A")),
        (PROD, {"prod": "A"}, answers("A")),
        (PROD, {"prod": "A"}, DOES_NOT_ANSWER),
        (PROD, {"prod": "A"}, OLD),
        (replace(PROD, cluster_id="A"), {}, DOES_NOT_ANSWER),
    ],
    ids=["new", "known", "known and down", "known and old", "new disk, configured and down"],
)
def test_a_cluster_has_the_id_that_it_answers_or_that_is_known(
    cluster: ClusterConnection, recorded: dict[str, str], identify: Identify
) -> None:
    assert identify_clusters([cluster], recorded, identify).require_all() == {"prod": "A"}


@pytest.mark.parametrize(
    ("reason", "detail", "sentence"),
    [
        (
            Reason.UNSUPPORTED,
            "",
            r"no controller before Kafka 3\.7 can\): set cluster_id in a --config file; .* meta\.pro",
        ),
        (Reason.DENIED, "DescribeCluster needs ALTER", "set cluster_id"),
        (Reason.NOT_AUTHENTICATED, "rejected the login", r"\(rejected the login\).*; correct the login [^;]*\)$"),
        (Reason.WRONG_PROTOCOL, "uses TLS", r"\(uses TLS\).*; correct security_protocol: [^;]*$"),
        (Reason.TLS_FAILED, "has expired", r"\(has expired\).*; correct the TLS settings [^;]*\)$"),
        (Reason.WRONG_CLUSTER, "c1 belongs to cluster B", r"c1:9093 is not cluster .* correct the address"),
    ],
)
def test_a_new_cluster_that_a_person_must_correct_is_refused_with_the_reason_and_its_fix(
    reason: Reason, detail: str, sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        identify_clusters([PROD], {}, fails(reason, detail)).require_start([PROD], {})


@pytest.mark.parametrize("reason", sorted({*Reason} - ANSWERS))
def test_a_new_cluster_that_may_answer_later_does_not_stop_the_start(reason: Reason) -> None:
    identified = identify_clusters([PROD], {}, fails(reason, "why"))
    identified.require_start([PROD], {})
    assert (identified.ids, identified.confirmed) == ({}, {})
    (sentence,) = map(str, identified.unavailable.values())
    assert sentence == "cluster prod: none of c1:9093 could be queried (why), and its cluster id is not known yet"


@pytest.mark.parametrize("cluster_id", [None, "A"])
def test_a_login_by_scram_that_is_refused_may_pass(cluster_id: str | None) -> None:
    """KIP-900: a controller that has no leader yet knows no credentials."""
    by_scram = replace(PROD, options={"sasl_mechanism": "SCRAM-SHA-512"}, cluster_id=cluster_id)
    identified = identify_clusters([by_scram], {}, fails(Reason.NOT_AUTHENTICATED))
    identified.require_start([by_scram], {})
    assert identified.ids == ({} if cluster_id is None else {"prod": cluster_id})


@pytest.mark.parametrize("reason", [Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED])
def test_a_cluster_that_answers_and_refuses_the_login_is_not_down(reason: Reason) -> None:
    with pytest.raises(UsageError, match=r"could be queried \(refused\) .*; correct the [^;]*\)$"):
        identify_clusters([replace(PROD, cluster_id="A")], {}, fails(reason, "refused")).require_start([PROD], {})


def test_a_mistake_about_one_cluster_does_not_stop_a_job_that_has_monitored_others() -> None:
    new = ClusterConnection(name="new", bootstrap=(("n1", 9093),))

    def one_denies(cluster: ClusterConnection, timeout_s: float) -> str:
        return "A" if cluster is PROD else fails(Reason.DENIED)(cluster, timeout_s)

    identified = identify_clusters([new, PROD], {"prod": "A"}, one_denies)
    identified.require_start([new, PROD], {"prod": "A"})
    assert identified.ids == {"prod": "A"}
    for clusters, recorded in (([new, PROD], {}), ([new], {"prod": "A"})):
        with pytest.raises(UsageError, match="cluster new: n1:9093 does not name its cluster id"):
            identified.require_start(clusters, recorded)


def test_of_several_clusters_only_the_unavailable_one_has_no_id() -> None:
    def one_does_not_answer(cluster: ClusterConnection, timeout_s: float) -> str:
        return "A" if cluster is PROD else DOES_NOT_ANSWER(cluster, timeout_s)

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


def test_another_cluster_at_the_same_address_is_refused() -> None:
    with pytest.raises(UsageError, match=r"answers as cluster B, but this checkpoint belongs to cluster A; nothing"):
        identify_clusters([PROD], {"prod": "A"}, answers("B")).require_all()


@pytest.mark.parametrize("recorded", [{}, {"prod": "A"}])
def test_another_cluster_than_the_configured_one_is_refused(recorded: dict[str, str]) -> None:
    other = fails(Reason.WRONG_CLUSTER, "c1 belongs to cluster B")

    with pytest.raises(UsageError, match=r"c1:9093 is not cluster A \(.*to cluster B\); nothing was changed"):
        identify_clusters([replace(PROD, cluster_id="A")], recorded, other).require_start([PROD], recorded)


def test_a_configured_id_that_no_node_has_answered_can_still_be_corrected() -> None:
    configured = replace(PROD, cluster_id="A")
    assert identify_clusters([configured], {}, DOES_NOT_ANSWER).confirmed == {}
    assert identify_clusters([configured], {}, answers("A")).confirmed == {"prod": "A"}
    assert identify_clusters([configured], {"prod": "A"}, DOES_NOT_ANSWER).confirmed == {"prod": "A"}


def test_the_ids_of_clusters_that_are_not_configured_now_stay_recorded(tmp_path: Path) -> None:
    checkpoint = Checkpoint(folder=tmp_path)
    answered = ClusterIds(ids={"prod": "A", "new": "B"}, unavailable={}, unconfirmed=frozenset({"new"}))
    assert record_ids(checkpoint, {"former": "C"}, answered) == {"former": "C", "prod": "A", "new": "B"}
    assert Checkpoint(folder=tmp_path).cluster_ids() == {"former": "C", "prod": "A"}


def test_a_cluster_that_is_configured_twice_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    answered = ClusterIds(ids={"eu": "A", "us": "B", "asia": "A"}, unavailable={})
    record_ids(Checkpoint(folder=tmp_path), {}, answered)
    (warning,) = caplog.messages
    assert warning.startswith("clusters eu and asia have one cluster id, A: if they are one cluster")


def test_a_cluster_whose_id_is_not_recorded_has_the_configured_one() -> None:
    clusters = [
        {"name": "prod", "bootstrap": ["c1:9093"], "cluster_id": "A"},
        {"name": "new", "bootstrap": ["c2:9093"]},
    ]
    spec = JobSpec.of(Config.model_validate({"clusters": clusters}))
    for ids in ({}, {"new": "B"}):
        identified = spec.with_ids(ids)
        assert {one.name: one.cluster_id for one in identified.clusters} == {"prod": "A", "new": ids.get("new")}
        assert {one.name: one.cluster_id for one in identified.settings.values()} == {
            "prod": "A",
            "new": ids.get("new"),
        }
