"""KIP-595, elections as the simulated controllers hold them, against which the monitor is held: votes and starts."""

from random import Random

import pytest

from rules.model.identifiers import DirectoryId, Endpoint, NodeId, ReplicaKey
from rules.model.voter_set import Voter
from tests.simulation.controller import Controller
from tests.simulation.ground_truth import Truth
from tests.simulation.metadata_log import Entry, MetadataLog
from tests.simulation.network import Network
from tests.simulation.raft_messages import Fetch, Fetched, Message, Vote, Voted
from tests.simulation.replica import FETCH_TIMEOUT_MS

NOW_MS = 1_700_000_000_000
STRANGER = ReplicaKey(id=NodeId(9), directory_id=DirectoryId("dir9"))
"""No voter of anybody's."""


def replica(node: int) -> ReplicaKey:
    return ReplicaKey(id=NodeId(node), directory_id=DirectoryId(f"dir{node}"))


class Quorum:
    """Controllers 1, 2 and 3 are voters, 4 is none; nobody leads, and letters are read here instead of delivered."""

    def __init__(self, *, records: int = 5, epoch: int = 3) -> None:
        random = Random(1)
        self.network, self.nodes = Network(random), list[Controller]()
        voters = tuple(
            Voter(key=replica(node), endpoints=(Endpoint(listener="CONTROLLER", host=f"c{node}.test", port=9093),))
            for node in (1, 2, 3)
        )
        truth = Truth(strict=False)
        entries = [Entry(epoch, NOW_MS, None) for _ in range(records)]
        for number in (1, 2, 3, 4):
            log = MetadataLog(voters)
            log.append(entries)
            node = Controller(
                id=number,
                directory=f"dir{number}",
                port=9093,
                log=log,
                network=self.network,
                truth=truth,
                random=random,
                peers=self.nodes,
            )
            node.epoch = epoch
            self.nodes.append(node)

    def node(self, number: int) -> Controller:
        return self.nodes[number - 1]

    def sent(self) -> list[Message]:
        """What was sent since the last time, oldest first."""
        letters = []
        while self.network.next_ms() is not None:
            letters.append(self.network.take().message)
        return letters

    def asked(self, candidate: ReplicaKey, *, epoch: int = 4, last_epoch: int = 3, end: int = 5) -> bool:
        """Whether voter 1 votes for it."""
        vote = Vote(candidate, replica(1), epoch, last_epoch, end, pre=False)
        self.node(1).hear(NOW_MS, self.node(2), vote)
        (answer,) = (message for message in self.sent() if isinstance(message, Voted))
        assert answer.epoch == self.node(1).epoch, "with the epoch that it knows, be the answer yes or no"
        return answer.granted


@pytest.mark.kip("D025", "D050")
def test_one_vote_an_epoch_and_it_may_be_given_again_to_the_same_candidate_alone() -> None:
    quorum = Quorum()

    assert quorum.asked(replica(2))
    assert quorum.asked(replica(2)), "the answer was lost, say"
    assert not quorum.asked(replica(3))
    assert quorum.asked(replica(3), epoch=5)


@pytest.mark.kip("D050")
def test_who_knows_a_newer_epoch_refuses_and_who_hears_of_one_takes_it_over_even_when_it_refuses() -> None:
    quorum = Quorum(epoch=7)

    assert not quorum.asked(replica(2), epoch=6, last_epoch=7)
    assert quorum.node(1).epoch == 7
    assert not quorum.asked(replica(2), epoch=9, last_epoch=6, end=100), "its log is the older one"
    assert quorum.node(1).epoch == 9
    assert quorum.node(1).voted is None


@pytest.mark.kip("D050")
@pytest.mark.parametrize(
    ("last_epoch", "end", "granted"), [(3, 5, True), (3, 4, False), (2, 50, False), (4, 1, True), (3, 6, True)]
)
def test_the_last_epoch_decides_and_then_the_length(last_epoch: int, end: int, granted: bool) -> None:
    assert Quorum().asked(replica(2), last_epoch=last_epoch, end=end) is granted


@pytest.mark.kip("D025", "D050")
def test_a_vote_is_kept_over_a_restart() -> None:
    quorum = Quorum()
    assert quorum.asked(replica(2))

    quorum.node(1).start(NOW_MS)

    assert not quorum.asked(replica(3))


@pytest.mark.kip("D051", "K007")
def test_a_voter_votes_for_a_candidate_that_it_does_not_count_among_the_voters() -> None:
    """KIP-853: its own voter set may be the older one, and a refusal could leave the quorum without a leader."""
    quorum = Quorum()
    assert STRANGER not in quorum.node(1).log.keys

    assert quorum.asked(STRANGER)


def quiet(quorum: Quorum, number: int, *, until_ms: int) -> list[Message]:
    """What a controller that starts and hears nothing sends until then."""
    said: list[Message] = []
    quorum.node(number).start(NOW_MS)
    for now_ms in range(NOW_MS, NOW_MS + until_ms, 100):
        quorum.node(number).wake(now_ms)
        said += quorum.sent()
    return said


@pytest.mark.kip("D095")
def test_a_voter_that_starts_asks_for_the_leader_first_and_only_then_for_votes() -> None:
    early = quiet(Quorum(), 1, until_ms=FETCH_TIMEOUT_MS)
    whole = quiet(Quorum(), 1, until_ms=4 * FETCH_TIMEOUT_MS)

    assert early
    assert {type(message) for message in early} == {Fetch}
    assert {(one.epoch, one.offset) for one in early if isinstance(one, Fetch)} == {(3, 5)}, "what it knew before"
    kinds = [type(message) for message in whole]
    assert Vote in kinds
    assert kinds.index(Vote) >= len(early), "nobody led"


@pytest.mark.kip("D095")
def test_a_voter_that_finds_a_leader_when_it_starts_stands_for_nothing() -> None:
    quorum = Quorum()
    node = quorum.node(1)
    node.start(NOW_MS)

    for now_ms in range(NOW_MS, NOW_MS + 4 * FETCH_TIMEOUT_MS, 100):
        node.hear(now_ms, quorum.node(2), Fetched(2, 3))
        node.wake(now_ms)

    assert {type(message) for message in quorum.sent()} == {Fetch}
    assert (node.leader, node.candidate, node.prospective) == (2, False, False)


@pytest.mark.kip("D096")
def test_an_observer_that_starts_asks_for_ever_and_never_for_votes() -> None:
    said = quiet(Quorum(), 4, until_ms=50 * FETCH_TIMEOUT_MS)

    assert {type(message) for message in said} == {Fetch}
    assert len(said) > 50 * FETCH_TIMEOUT_MS // 400 // 2, "until the end"
