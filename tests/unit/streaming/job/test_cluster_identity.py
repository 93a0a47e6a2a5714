import pytest

from connectors.cluster_connection import Cluster
from connectors.errors import UnseenError, UsageError
from rules.model.monitoring import Reason
from streaming.job.cluster_identity import call_roll

PROD = Cluster(name="prod", bootstrap=(("c1", 9093),))


def answers(cluster_id: str) -> object:
    return lambda cluster, timeout_s: cluster_id


def is_silent(cluster: Cluster, timeout_s: float) -> str:
    raise UnseenError(Reason.UNRESOLVABLE, "c1: no such name")


def test_a_new_checkpoint_takes_the_id_that_answers() -> None:
    assert call_roll([PROD], {}, answers("MkU3OEVBNTcwNTJENDM2Qg")).complete() == {"prod": "MkU3OEVBNTcwNTJENDM2Qg"}  # type: ignore[arg-type]  # a lambda


def test_the_same_cluster_again() -> None:
    assert call_roll([PROD], {"prod": "A"}, answers("A")).complete() == {"prod": "A"}  # type: ignore[arg-type]  # a lambda


def test_a_known_cluster_that_does_not_answer_is_watched_all_the_same() -> None:
    assert call_roll([PROD], {"prod": "A"}, is_silent).complete() == {"prod": "A"}


def test_an_unknown_cluster_that_does_not_answer_is_refused_with_the_reason() -> None:
    with pytest.raises(
        UsageError, match=r"cluster prod: none of c1:9093 could be asked \(c1: no such name\) and .*no recorded"
    ):
        call_roll([PROD], {}, is_silent).complete()


def test_of_several_the_one_that_is_away_is_told_apart() -> None:
    def one_is_away(cluster: Cluster, timeout_s: float) -> str:
        return "A" if cluster is PROD else is_silent(cluster, timeout_s)

    new = Cluster(name="new", bootstrap=(("n1", 9093),))
    call = call_roll([new, PROD], {}, one_is_away)
    assert (call.ids, list(call.absent)) == ({"prod": "A"}, ["new"])


def test_a_controller_that_is_too_old_to_tell_its_cluster_wants_it_configured() -> None:
    def is_old(cluster: Cluster, timeout_s: float) -> str:
        raise UnseenError(Reason.UNSUPPORTED, "it does not offer this request")

    assert call_roll([PROD], {"prod": "A"}, is_old).complete() == {"prod": "A"}
    with pytest.raises(UsageError, match=r"before Kafka 3\.7 never can\): write its cluster_id, .* --config file$"):
        call_roll([PROD], {}, is_old).complete()


def test_another_cluster_at_the_same_address_is_refused() -> None:
    with pytest.raises(UsageError, match=r"answers as cluster B, but this checkpoint belongs to cluster A; nothing"):
        call_roll([PROD], {"prod": "A"}, answers("B")).complete()  # type: ignore[arg-type]  # a lambda


@pytest.mark.parametrize(
    ("reason", "detail", "mend"),
    [
        (Reason.DENIED, "DescribeCluster needs ALTER", "write its cluster_id"),
        (Reason.NOT_AUTHENTICATED, "it refused our login", "it refused our login.*correct the login"),
        (Reason.TLS_FAILED, "its certificate has expired", "its certificate has expired.*correct the TLS settings"),
        (Reason.TIMED_OUT, "it did not answer in time", "check the addresses"),
    ],
)
def test_what_keeps_us_out_is_said_with_what_mends_it(reason: Reason, detail: str, mend: str) -> None:
    def kept_out(cluster: Cluster, timeout_s: float) -> str:
        raise UnseenError(reason, detail)

    with pytest.raises(UsageError, match=mend):
        call_roll([PROD], {}, kept_out).complete()
