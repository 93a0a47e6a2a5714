"""Asks after every second whether each controller may be restarted or lost, and compares the answers with what happens.

What happens is what a copy of the simulated quorum does: the controller is lost, and the others run on until a leader
commits a record, or not. A monitor cannot know what happened after its newest observations. So an answer is false if
its outcome has been another one for longer than they are old: DescribeQuorum and the last fetch that it must show, the
probes of the endpoints and what the controllers report who leads. What is older than its age (`rules.model.ages`) must
not be the reason of a positive answer.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from rules.answers.what_if import Change, controllers_of_quorum
from rules.facts.freshness import fresh_poll
from rules.facts.quorum import Facts
from rules.finding import Thresholds
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from streaming.replay.decoded_row import DecodedRow
from streaming.status.restart_output import evaluate_restart
from streaming.status.what_if import what_if
from tests.agreement.outputs import cluster_state
from tests.simulation.activity import Phase
from tests.simulation.controller import SimulatedController
from tests.simulation.ground_truth import GroundTruth
from tests.simulation.network import Network
from tests.simulation.simulation import ACT_MS, STEP_MS, Simulation

BOUND_MS = 20_000
"""How long a quorum may take to commit a record: many elections."""
REJOIN_MS = 15_000
"""How long a restarted controller may take to be level with the leader."""
SETTLE_MS = 1_500
STEPS_TOGETHER = 2
LATE_MS = 4_000
"""A response may be delayed by a second, the clocks of quorum and monitor may be set by two."""
ALONE_MS = 40_000
"""How much later the next fault comes with each second seed: the one before it can be observed as the only one."""
WITNESSED = (2, 3)
"""The seeds, by their rest of four, in which the controllers' hosts report how they reach each other."""
PHASE_MS = 60_000
"""The longest phase: it is longer than every age."""


class _Unchecked(GroundTruth):
    """The ground truth of a copy: what happens there is not recorded."""

    def record_leader(self, node: SimulatedController) -> None:
        pass

    def commit(self, node: SimulatedController, end: int) -> None:
        pass


class Future:
    """A copy of the simulated quorum that runs on by itself: without faults, operators and a monitor."""

    def __init__(self, now_ms: int, nodes: Iterable[SimulatedController], network: Network) -> None:
        self.random, self.now_ms = Random(now_ms), now_ms
        self.network, truth = network.copied(self.random), _Unchecked(strict=False)
        self.nodes: list[SimulatedController] = []
        self.nodes += [node.copied(self.nodes, self.network, truth) for node in nodes]

    def copied(self) -> "Future":
        """Returns a future in the same state, which does not change with this one."""
        return Future(self.now_ms, self.nodes, self.network)

    def node(self, node: int) -> SimulatedController:
        return next(each for each in self.nodes if each.id == node)

    def settle(self) -> None:
        """Runs on for as long as it takes to act on an answer: which records are under way does not count."""
        self._until(lambda: False, SETTLE_MS, writes=False)

    def commits(self) -> bool:
        """Runs on; returns whether a leader commits a record that was written after the beginning."""
        written = {node.id: len(node.log) for node in self.nodes}

        def committed(node: SimulatedController) -> bool:
            return node.up and node.leads and node.high_watermark > max(node.epoch_start, written[node.id])

        return self._until(lambda: any(map(committed, self.nodes)), BOUND_MS)

    def rejoins(self, node: SimulatedController) -> bool:
        """Runs on; returns whether this controller leads, or has what a leader has."""
        leaders = [each for each in self.nodes if each.up and each.leads]
        end = min((len(each.log) for each in leaders), default=0)
        return self._until(lambda: node.up and (node.leads or (node.leader and len(node.log) >= end)), REJOIN_MS)

    def _until(self, reached: Callable[[], object], bound_ms: int, *, writes: bool = True) -> bool:
        end_ms = self.now_ms + bound_ms
        while self.now_ms < end_ms:
            self.now_ms += STEP_MS * STEPS_TOGETHER
            for node in self.nodes:
                node.resume_if_due(self.now_ms)
                if node.up:
                    node.tick(self.now_ms)
                    if writes and node.leads and not node.hangs and self.now_ms % ACT_MS == 0:
                        node.write(self.now_ms, None)
            if reached():
                return True
        return False


RESTART, LOSE, LOSE_ALONE = "safe-to-restart", "what-if --lose", "what-if --lose --restart"


def outcomes_of(future: Future, node: int) -> dict[str, bool]:
    """Returns whether the quorum survives what each question asks about this controller.

    It is lost or restarted and the others run on, or it is lost and all others that run are restarted.
    """
    alone, together = future.copied(), future.copied()
    alone.node(node).stop()
    survives = alone.commits()
    alone.node(node).start(alone.now_ms)
    for each in together.nodes:
        if each.up:
            each.start(together.now_ms)
    together.node(node).stop()
    rejoins = survives and alone.rejoins(alone.node(node))
    return {RESTART: rejoins, LOSE: together.commits(), LOSE_ALONE: survives}


class Answer(NamedTuple):
    """One answer about one controller: yes, no or unknown."""

    question: str
    node: NodeId
    positive: bool | None
    text: str


def answers_of(quorum: Quorum, thresholds: Mapping[str, Thresholds]) -> Iterator[Answer]:
    """Yields what safe-to-restart and what-if say of each voter."""
    state, controllers = cluster_state(quorum, thresholds), controllers_of_quorum(Facts(quorum))
    members = {one.key.id for one in controllers.electorate.electors}
    for node in sorted(members | (quorum.poll.voter_ids if quorum.poll else set())):
        restart = evaluate_restart(state, node)
        yield Answer(RESTART, node, restart.safe, "; ".join((*map(str, restart.against), *restart.unknown)) or "SAFE")
        alone = frozenset({node})
        for question, restarted in ((LOSE, None), (LOSE_ALONE, alone)) if node in members else ():
            result = what_if(controllers, Change(moved={}, lost=alone, restarted=restarted))
            text = result.unknown or f"electable {result.electable}, {result.leader_stays} stays"
            yield Answer(question, node, result.electable, text)


ACCESS: tuple[str, ...] = ("distrusted", "rejected", "denied", "unresolved")
"""What keeps a controller from being answered by another one that it reaches, by the network's field."""
UNUSED_PATHS = "one_way"
"""A path between two followers is used first when the leader is gone: until then no observation shows a fault of it."""
UNTRIED = "no leader was elected by its vote since"
"""What the reason of an answer says that is unknown for ten minutes after a start, while nothing is wrong."""
UNRESOLVED = "unresolved"
"""So is the resolver of a controller's host, while its connections are open."""
TIMERS = "timers"
"""The clock of a follower, which nothing but its own host shows."""
UNOBSERVED = frozenset({UNUSED_PATHS, UNRESOLVED, TIMERS})
"""What the monitor cannot see, and only a row of that host shows (`kraftwatch witness`)."""


@dataclass(slots=True, kw_only=True)
class ForecastCount:
    """The answers of a run, by question."""

    moments: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    positive: Counter[str] = field(default_factory=Counter)
    negative: Counter[str] = field(default_factory=Counter)
    """Negative answers that were right at once."""
    unknown: Counter[str] = field(default_factory=Counter)
    false_negative: Counter[str] = field(default_factory=Counter)
    """A negative answer, although the quorum has survived it for longer than the observations are old."""
    healthy: Counter[str] = field(default_factory=Counter)
    """Answers while nothing has been wrong for longer than every age."""
    unproved: list[str] = field(default_factory=list)
    """The answers UNKNOWN among them, each in a sentence."""
    false_positive: dict[str, list[str]] = field(default_factory=dict)
    """By the kind of what was not known: a field of ACCESS, UNUSED_PATHS, or `other`; each in a sentence."""

    @property
    def report(self) -> str:
        """The shares of all answers, in percent, and how many are false."""
        shares = [
            f"{question} {count}: positive {self.positive[question] / count:.1%}, unknown "
            f"{self.unknown[question] / count:.1%}, false negative {self.false_negative[question] / count:.1%}"
            for question, count in self.answers.items()
        ]
        wrong = {kind: len(sentences) for kind, sentences in self.false_positive.items()}
        healthy = f"{len(self.unproved)} of {self.healthy.total()} answers about healthy quorums are unknown"
        return f"{self.moments} moments; {'; '.join(shares)}; {healthy}; false positive: {wrong or 'none'}"


class ForecastSimulation(Simulation):
    """A simulation that asks about each voter after every second. Its controllers may also lose each other's access."""

    def __init__(self, seed: int, count: ForecastCount) -> None:
        super().__init__(seed, strict=False)
        self.count = count
        self.fault_injection.of_access = 7 if seed % 2 else 1
        self.fault_injection.of_clocks = self.fault_injection.of_copies = 1
        self.gatherer.witnesses = seed % 4 in WITNESSED
        self.checker.agreement.every = 10**9
        self.changed_ms: dict[tuple[str, int], tuple[tuple[bool, object], int]] = {}
        """The newest outcome of each question about each node, who ran and led, and since when it has been that."""
        self.kinds: dict[tuple[str, int], tuple[str, int]] = {}
        """Of each answer that is false now: the kind, and since when."""
        self.healthy_from_ms = self.now_ms + PHASE_MS
        self.recorded = self.gatherer.recorded()

    def _inject(self) -> None:
        super()._inject()
        if self.seed % 2:
            self.inject_at_ms += ALONE_MS

    def _next_phase(self) -> None:
        super()._next_phase()
        if self.activity.phase is Phase.QUIET_RULES:
            self.network.restore_access()
            self.fault_injection.end_clones()
            self.fault_injection.restore(self.now_ms)
        self.phase_ends_ms = min(self.phase_ends_ms, self.now_ms + PHASE_MS * (1 + self.seed % 2))

    def deliver(self, rows: Sequence[DecodedRow]) -> None:
        super().deliver(rows)
        quorum = self.checker.monitor.machine.quorum()
        self.count.moments += 1
        recorded = self.gatherer.recorded()
        if not self._is_healthy() or recorded != self.recorded:
            self.recorded, self.healthy_from_ms = recorded, self.now_ms + PHASE_MS // 2 + LATE_MS
        future = Future(self.now_ms, self.nodes, self.network)
        future.settle()
        answers = [*answers_of(quorum, self.checker.monitor.settings.thresholds)]
        outcomes = {node: outcomes_of(future, node) for node in {one.node for one in answers}}
        for answer in answers:
            self._compare(quorum, answer, outcomes[answer.node][answer.question])

    def _compare(self, quorum: Quorum, answer: Answer, outcome: bool) -> None:
        question, node, count = answer.question, answer.node, self.count
        # With other nodes, leaders or voters the outcome has another reason, which may be newer than the observations.
        now = outcome, [(one.id, one.leads and one.log.keys) for one in self.nodes if one.up]
        before, since_ms = self.changed_ms.get((question, node), (now, self.now_ms))
        if before != now:
            since_ms = self.now_ms
        self.changed_ms[question, node] = (now, since_ms)
        count.answers[question] += 1
        count.positive[question] += answer.positive is True
        count.negative[question] += answer.positive is False and not outcome
        count.unknown[question] += answer.positive is None
        sentence = f"{question} {node}: {answer.text}, for {self.now_ms - since_ms} ms; {self.location()}"
        if self.now_ms >= self.healthy_from_ms:
            count.healthy[question] += 1
            if answer.positive is None:
                count.unproved.append(sentence)
        age_ms = observation_age_ms(quorum) + LATE_MS
        if answer.positive in (None, outcome) or self.now_ms - since_ms <= age_ms:
            self.kinds.pop((question, node), None)
            return
        if answer.positive:
            kind = self._kind(answer)
            known, since_ms = self.kinds.setdefault((question, node), (kind, since_ms))
            if known != kind:
                # Another fault is the reason now: it may be newer than the observations.
                known, since_ms = self.kinds[question, node] = kind, self.now_ms
            if self.now_ms - since_ms > age_ms:
                count.false_positive.setdefault(kind, []).append(sentence)
        else:
            count.false_negative[question] += 1

    def _kind(self, answer: Answer) -> str:
        """Returns the fact without which the answer would have been right, or `other`; the first one of several."""
        present = [name for name in (*ACCESS, UNUSED_PATHS) if getattr(self.network, name)]
        present += [TIMERS] if any(node.set_back_unseen for node in self.nodes) else []
        for names in (*([name] for name in present), present):
            permitted = Future(self.now_ms, self.nodes, self.network)
            for name in names:
                if name != TIMERS:
                    getattr(permitted.network, name).clear()
            for node in permitted.nodes:
                if TIMERS in names and node.set_back_unseen:
                    node.timers_from_ms = 0
                if node.ended and "denied" in names:
                    node.start(permitted.now_ms)
            permitted.settle()
            if outcomes_of(permitted, answer.node)[answer.question]:
                return next(iter(names), "other")
        return "other"

    def _is_healthy(self) -> bool:
        """Returns whether nothing is wrong that an answer may depend on."""
        network, leaders = self.network, [node for node in self.nodes if node.up and node.leads]
        faults = (
            *(network.endpoint_states, network.network_partitions, network.one_way),
            *(network.distrusted, network.rejected, network.denied, network.unresolved),
            *(node for node in self.nodes if node.is_clone or node.resumes_ms),
            *self.ground_truth.violations,
        )
        if any(faults) or network.loss_probability or network.slow_probability or len(leaders) != 1:
            return False
        by_key = {node.key: node for node in self.nodes if node.up}
        recorded = leaders[0].log.voters
        return (
            self.now_ms
            >= max(
                self.gatherer.runs_from_ms, self.gatherer.set_back_until_ms, *(one.timers_from_ms for one in self.nodes)
            )
            and self.activity.phase is not Phase.FAULTS_INJECTED
            and all(voter.key in by_key and by_key[voter.key].voter == voter for voter in recorded)
        )


def observation_age_ms(quorum: Quorum) -> int:
    """Returns how old the oldest observation is that an answer rests on; at most as old as each kind may be."""
    ages, poll = quorum.ages, quorum.poll
    probes = [quorum.probe(voter.key.id, voter.endpoint) for voter in quorum.voters]
    views = [one.view for one in Facts(quorum).nodes.values()]
    return max(
        (quorum.now_ms - poll.observed_at_ms if poll and fresh_poll(quorum) else ages.poll_ms) + ages.fetch_ms,
        *(_age_ms(quorum, None if each is None else each.observed_at_ms, ages.probe_ms) for each in probes),
        *(_age_ms(quorum, None if each is None else each.observed_at_ms, ages.view_ms) for each in views),
    )


def _age_ms(quorum: Quorum, observed_at_ms: Millis | None, most_ms: Millis) -> int:
    return most_ms if observed_at_ms is None else min(quorum.now_ms - observed_at_ms, most_ms)
