"""A Simulation: a quorum, its network, its people and its monitor, one event after the other, all by one seed.

A step is one event: a message delivered, a controller that wakes, half a second of activity, a deed of chaos, or one
look of the gatherer. The same seed gives the same steps.
"""

import heapq
from random import Random

from rules.model.identifiers import DirectoryId, Endpoint, NodeId, ReplicaKey
from rules.model.voter_set import Voter
from tests.simulation.activity import Activity, Phase
from tests.simulation.alert_checker import Judge
from tests.simulation.conditions import in_sight, possible, standing
from tests.simulation.controller import Controller
from tests.simulation.fault_injection import Chaos
from tests.simulation.gatherer import Gatherer
from tests.simulation.ground_truth import Broken, Truth
from tests.simulation.metadata_log import MetadataLog
from tests.simulation.network import Network
from tests.simulation.planted_faults import FAULTS

START_MS = 1_700_000_000_000
WAKE_MS = 100
QUIET_MS = 60_000
"""At first nothing is done to the quorum."""
FAULTY_QUIET_MS = 5_000
CHAOS_MS = (40_000, 120_000)
NEGLECT_MS = (100_000, 100_000, 400_000)
"""Everything runs again, and nobody mends what does not mend itself: longer than the holds of a minute, and at times
than those of five."""
CALM_MS = 150_000
"""Long enough to mend everything, and for every hold and clear after that."""
BUSY_MS = 50_000
INSPECTION_STEPS = 5_000


class Simulation:
    """Everything by this seed."""

    def __init__(
        self,
        seed: int,
        *,
        faults: frozenset[str] = frozenset(),
        strict: bool = True,
        polls_only: bool = False,
        controllers: int | None = None,
        static: bool | None = None,
    ) -> None:
        """A quorum of one to five controllers.

        Args:
            seed: of all chance there is.
            faults: names of `faults.FAULTS` that are broken on purpose.
            strict: False enforces nothing, so that one sees what the monitor tells of what is broken.
            controllers: how many voters there are at first; None leaves it to the seed.
            static: whether it begins by controller.quorum.voters; None leaves it to the seed.
            polls_only: the monitor may DESCRIBE and nothing else: it reads no log.
        """
        self.seed = seed
        self.random = Random(seed)
        self.now_ms = START_MS
        self.steps = 0
        assert faults <= set(FAULTS), faults
        self.faults, self.strict = faults, strict
        self.truth = Truth(strict=strict)
        self.network = Network(self.random)
        self.nodes: list[Controller] = []
        self.static = (not faults and self.random.random() < 0.2) if static is None else static
        """Begins as a quorum by controller.quorum.voters, and is upgraded once."""
        self._form(controllers or (3 if faults else self.random.choice((1, 3, 3, 3, 4, 5, 5))))
        self.activity = Activity(self.random, self.nodes, self.truth.oracle, faults, led_at_ms=self.now_ms)
        self.gatherer = Gatherer(self.random, self.nodes, self.network, polls_only)
        self.gatherer.skew_ms = self.random.choice((0, 0, -3_600_000, 3_600_000, 90_000))
        self.chaos = Chaos(self.random, self.nodes, self.network, self.gatherer)
        self.judge = Judge(self.truth, self.gatherer.bootstrap, strict and not polls_only, redelivered=seed % 3 == 0)
        self.phase = Phase.CALM
        self.calms = 0
        """How many times all was well again, and was judged to be."""
        self.phase_ends_ms = START_MS + (FAULTY_QUIET_MS if faults else QUIET_MS)
        self.last = ""
        self._agenda: list[tuple[int, int, str, int]] = []
        self._number = 0
        self._woken = len(self.nodes)
        for number in range(len(self.nodes)):
            self._plan(self.random.randint(1, WAKE_MS), "wake", number)
        for delay_ms, what in ((500, "act"), (1_000, "look"), (1_500, "strike")):
            self._plan(delay_ms, what)

    def run(self, steps: int) -> None:
        """That many steps more.

        Raises:
            Broken: by the quorum, or by what the monitor says: with seed, step and how to see it again.
        """
        end = self.steps + steps
        while self.steps < end:
            try:
                self.step()
            except Broken as broken:
                raise Broken(f"{broken}\n{self.where()}") from broken

    def where(self) -> str:
        """One line to come here again."""
        seconds = (self.now_ms - START_MS) / 1000
        again = f"make simulate SEED={self.seed} STEPS={self.steps}"
        return f"seed {self.seed}, step {self.steps}, second {seconds:.1f}, at {self.last}: {again}"

    def step(self) -> None:
        self.steps += 1
        letter_ms = self.network.next_ms()
        if letter_ms is not None and letter_ms <= self._agenda[0][0]:
            self.now_ms = letter_ms
            self._deliver()
        else:
            self.now_ms, _, what, number = heapq.heappop(self._agenda)
            self.last = what
            getattr(self, f"_{what}")(number)
        if self.steps % INSPECTION_STEPS == 0:
            self.truth.inspect(self.nodes)

    def _form(self, voters: int) -> None:
        initial = tuple(
            Voter(
                key=ReplicaKey(id=NodeId(number), directory_id=DirectoryId(f"dir{number}")),
                endpoints=(Endpoint(listener="CONTROLLER", host=f"c{number}.test", port=9_093),),
            )
            for number in range(1, voters + 1)
        )
        for voter in initial:
            self.nodes.append(
                Controller(
                    id=voter.key.id,
                    directory=f"dir{voter.key.id}",
                    port=9_093,
                    log=MetadataLog(initial),
                    network=self.network,
                    truth=self.truth,
                    random=self.random,
                    peers=self.nodes,
                    faults=self.faults,
                    static=self.static,
                )
            )
        for node in self.nodes:
            node.start(self.now_ms)

    def _plan(self, delay_ms: int, what: str, number: int = 0) -> None:
        self._number += 1
        heapq.heappush(self._agenda, (self.now_ms + delay_ms, self._number, what, number))

    def _deliver(self) -> None:
        letter = self.network.take()
        self.last = type(letter.message).__name__
        receiver, sender = self.nodes[letter.receiver - 1], self.nodes[letter.sender - 1]
        if receiver.up and self.network.open(letter.sender, letter.receiver):
            receiver.hear(self.now_ms, sender, letter.message)
            self.truth.touched(receiver)

    def _wake(self, number: int) -> None:
        node = self.nodes[number]
        if node.up:
            node.wake(self.now_ms)
            self.truth.touched(node)
        self._plan(WAKE_MS, "wake", number)

    def _act(self, _: int) -> None:
        for node in self.nodes:
            if node.up and node.leads:
                self.activity.act(self.now_ms, node)
        self.activity.rescue(self.now_ms)
        self._plan(500, "act")

    def _look(self, _: int) -> None:
        rows = list(self.gatherer.look(self.now_ms))
        self.judge.may(self.now_ms, possible(self), sighted=in_sight(self))
        for row in rows:
            self.judge.observe(row)
        self.judge.stand(self.now_ms, set(standing(self)))
        self._plan(1_000, "look")

    def _strike(self, _: int) -> None:
        if self.now_ms >= self.phase_ends_ms:
            self._turn()
        elif self.phase is Phase.CHAOS:
            self.last = self.chaos.strike(self.now_ms)
            for number in range(self._woken, len(self.nodes)):
                self._plan(1, "wake", number)
            self._woken = len(self.nodes)
        self._plan(self.random.randint(500, 6_000), "strike")

    def _turn(self) -> None:
        """From calm to chaos to neglect and back; at the end of a calm nothing may be left."""
        match self.phase:
            case Phase.CALM:
                if self.strict:
                    self.judge.calm(untouched=not self.chaos.deeds)
                    self._recovered()
                    self.calms += 1
                self.phase, lasts_ms = Phase.CHAOS, self.random.randint(*CHAOS_MS)
            case Phase.CHAOS:
                self.chaos.heal(self.now_ms)
                self.phase, lasts_ms = Phase.NEGLECT, self.random.choice(NEGLECT_MS)
            case _:
                self.network.places.clear()
                self.activity.busy_until_ms = self.now_ms + BUSY_MS
                self.phase, lasts_ms = Phase.CALM, CALM_MS
        self.activity.phase = self.phase
        self.phase_ends_ms = self.now_ms + lasts_ms

    def _recovered(self) -> None:
        """The quorum itself must be well by now, or the simulation is no quorum."""
        voters = self.truth.oracle.voters
        missing = voters is not None and voters != frozenset(node.key for node in self.nodes)
        if missing or not any(node.leads for node in self.nodes):
            raise Broken(f"liveness: after {CALM_MS} ms of calm the voters are {voters}")
