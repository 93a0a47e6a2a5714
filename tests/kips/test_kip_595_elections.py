"""KIP-595 elections of the simulated controllers that the monitor is tested with: votes and starts."""

from random import Random

import pytest

from rules.model.identifiers import DirectoryId, Endpoint, NodeId, ReplicaKey
from rules.model.voter_set import Voter
from tests.simulation.controller import SimulatedController
from tests.simulation.ground_truth import GroundTruth
from tests.simulation.metadata_log import LogEntry, MetadataLog
from tests.simulation.network import Network
from tests.simulation.raft_messages import FetchRequest, FetchResponse, Message, VoteRequest, VoteResponse
from tests.simulation.replica import FETCH_TIMEOUT_MS

NOW_MS = 1_700_000_000_000
STRANGER = ReplicaKey(id=NodeId(9), directory_id=DirectoryId("dir9"))
"""A replica that is in no voter set."""


def replica(node: int) -> ReplicaKey:
    return ReplicaKey(id=NodeId(node), directory_id=DirectoryId(f"dir{node}"))


class VotingQuorum:
    """Controllers 1, 2 and 3 are voters, 4 is none. No controller leads; messages are collected, not delivered."""

    def __init__(self, *, records: int = 5, epoch: int = 3) -> None:
        random = Random(1)
        self.network, self.nodes = Network(random), list[SimulatedController]()
        voters = tuple(
            Voter(key=replica(node), endpoints=(Endpoint(listener="CONTROLLER", host=f"c{node}.test", port=9093),))
            for node in (1, 2, 3)
        )
        ground_truth = GroundTruth(strict=False)
        entries = [LogEntry(epoch, NOW_MS, None) for _ in range(records)]
        for number in (1, 2, 3, 4):
            log = MetadataLog(voters)
            log.append(entries)
            node = SimulatedController(
                id=number,
                directory=f"dir{number}",
                port=9093,
                log=log,
                network=self.network,
                ground_truth=ground_truth,
                random=random,
                peers=self.nodes,
            )
            node.epoch = epoch
            self.nodes.append(node)

    def node(self, number: int) -> SimulatedController:
        return self.nodes[number - 1]

    def sent(self) -> list[Message]:
        """Returns the messages sent since the last call, oldest first."""
        messages = []
        while self.network.next_ms() is not None:
            messages.append(self.network.take().message)
        return messages

    def grants_vote(self, candidate: ReplicaKey, *, epoch: int = 4, last_epoch: int = 3, end: int = 5) -> bool:
        """Returns whether voter 1 votes for the candidate."""
        vote = VoteRequest(candidate, replica(1), epoch, last_epoch, end, pre=False)
        self.node(1).receive(NOW_MS, self.node(2), vote)
        (answer,) = (message for message in self.sent() if isinstance(message, VoteResponse))
        assert answer.epoch == self.node(1).epoch, "every response has its known epoch"
        return answer.granted


@pytest.mark.kip("D025", "D050")
def test_a_voter_votes_once_per_epoch_or_again_for_the_same_candidate() -> None:
    quorum = VotingQuorum()

    assert quorum.grants_vote(replica(2))
    assert quorum.grants_vote(replica(2)), "the response may have been lost"
    assert not quorum.grants_vote(replica(3))
    assert quorum.grants_vote(replica(3), epoch=5)


@pytest.mark.kip("D050")
def test_an_older_epoch_is_rejected_and_a_newer_one_is_adopted_even_with_a_rejection() -> None:
    quorum = VotingQuorum(epoch=7)

    assert not quorum.grants_vote(replica(2), epoch=6, last_epoch=7)
    assert quorum.node(1).epoch == 7
    assert not quorum.grants_vote(replica(2), epoch=9, last_epoch=6, end=100), "its log is the older one"
    assert quorum.node(1).epoch == 9
    assert quorum.node(1).voted is None


@pytest.mark.kip("D050")
@pytest.mark.parametrize(
    ("last_epoch", "end", "granted"), [(3, 5, True), (3, 4, False), (2, 50, False), (4, 1, True), (3, 6, True)]
)
def test_the_last_epoch_decides_the_vote_and_then_the_log_length(last_epoch: int, end: int, granted: bool) -> None:
    assert VotingQuorum().grants_vote(replica(2), last_epoch=last_epoch, end=end) is granted


@pytest.mark.kip("D025", "D050")
def test_a_vote_survives_a_restart() -> None:
    quorum = VotingQuorum()
    assert quorum.grants_vote(replica(2))

    quorum.node(1).start(NOW_MS)

    assert not quorum.grants_vote(replica(3))


@pytest.mark.kip("D051", "K007")
def test_a_voter_votes_for_a_candidate_outside_its_voter_set() -> None:
    """KIP-853: its own voter set may be the older one, and a refusal could leave the quorum without a leader."""
    quorum = VotingQuorum()
    assert STRANGER not in quorum.node(1).log.keys

    assert quorum.grants_vote(STRANGER)


def messages_of_unanswered(quorum: VotingQuorum, number: int, *, until_ms: int) -> list[Message]:
    """Returns the messages of a controller that starts and gets no response until then."""
    messages: list[Message] = []
    quorum.node(number).start(NOW_MS)
    for now_ms in range(NOW_MS, NOW_MS + until_ms, 100):
        quorum.node(number).tick(now_ms)
        messages += quorum.sent()
    return messages


@pytest.mark.kip("D095")
def test_a_starting_voter_fetches_before_it_requests_votes() -> None:
    early = messages_of_unanswered(VotingQuorum(), 1, until_ms=FETCH_TIMEOUT_MS)
    whole = messages_of_unanswered(VotingQuorum(), 1, until_ms=4 * FETCH_TIMEOUT_MS)

    assert early
    assert {type(message) for message in early} == {FetchRequest}
    assert {(one.epoch, one.offset) for one in early if isinstance(one, FetchRequest)} == {(3, 5)}, (
        "its epoch and log end from disk"
    )
    kinds = [type(message) for message in whole]
    assert VoteRequest in kinds
    assert kinds.index(VoteRequest) >= len(early), "no controller led"


@pytest.mark.kip("D095")
def test_a_starting_voter_that_finds_a_leader_starts_no_election() -> None:
    quorum = VotingQuorum()
    node = quorum.node(1)
    node.start(NOW_MS)

    for now_ms in range(NOW_MS, NOW_MS + 4 * FETCH_TIMEOUT_MS, 100):
        node.receive(now_ms, quorum.node(2), FetchResponse(2, 3))
        node.tick(now_ms)

    assert {type(message) for message in quorum.sent()} == {FetchRequest}
    assert (node.leader, node.candidate, node.prospective) == (2, False, False)


@pytest.mark.kip("D096")
def test_a_starting_observer_fetches_and_never_requests_votes() -> None:
    messages = messages_of_unanswered(VotingQuorum(), 4, until_ms=50 * FETCH_TIMEOUT_MS)

    assert {type(message) for message in messages} == {FetchRequest}
    assert len(messages) > 50 * FETCH_TIMEOUT_MS // 400 // 2, "until the end"
