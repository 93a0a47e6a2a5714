"""ChaosForecast: what safe-to-restart and what-if say of a real quorum with a fault, and what then happens.

A round injects a fault, waits until the observations are newer than it, asks about each controller, and does one of
the things that were asked about: a positive answer must be right. What no observation can show is counted by itself:
a path that is broken and not used yet (`tests.simulation.forecast`).
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from deploy.lab import LabError
from deploy.lab.kafka_requests import QuorumState
from deploy.lab.running_quorum import CHANGE_TIMEOUT_S
from rules.facts.freshness import fresh_poll
from rules.facts.quorum import Facts
from rules.model.identifiers import Millis
from rules.model.monitoring import Access
from rules.model.quorum import Quorum
from rules.model.replica import Poll
from tests.chaos.access_faults import ACCESS_FAULTS, trusted_authorities
from tests.chaos.chaos_fault import ChaosContext, ChaosFault, NotNowError
from tests.chaos.chaos_lab import ChaosLab
from tests.chaos.cluster_faults import CLUSTER_FAULTS
from tests.chaos.facts import FactLog
from tests.chaos.packet_filter import MONITOR
from tests.description.describe import describe
from tests.eventually import eventually
from tests.kafka.gatherer_run import cluster_of, run_gatherer
from tests.kafka.monitored_cluster import MonitoredCluster, monitored_cluster_of
from tests.lab_security import ADMIN
from tests.simulation.forecast import LATE_MS, LOSE, RESTART, UNTRIED, UNUSED_PATHS, Answer, answers_of

FORECAST_FAULTS = (*CLUSTER_FAULTS, *ACCESS_FAULTS)
"""Not a full disk: a controller writes into its last page for half a minute, and only then, or at its start, ends."""
_BROKERS = "every broker"
"""What a fault needs that has no place in a quorum without brokers."""
_LEAVE_NO_QUORUM = "a majority of the disks is replaced"
"""In a static quorum emptied voters elect a leader without records: nothing heals it."""
_ENDS_FIRST = "a controller restarts again and again"
"""A fault about which is asked when it is over, as about a share of the others."""
CURRENT_S = 20.0
NEW_RECORDS = 2
"""More committed records than a fetch that was under way may have acknowledged; a leader writes two a second."""
ATTEMPTS = 1_000
_COLUMNS = (
    "positive",
    "negative",
    "unknown",
    "after a start",
    "tried positive",
    "false",
    UNUSED_PATHS,
    "tried negative",
    "harmful",
)


@dataclass(kw_only=True)
class ChaosForecast:
    """A run in a folder: `faults` rounds with one quorum, by a seed."""

    kinds: ClassVar[Sequence[Mapping[str, Any]]] = ({}, {"users": []}, {"static": True})
    """The quorums, by the seed: with a login and TLS, or with voters in the configuration."""
    healthy_polls: ClassVar[int] = 4
    over_share: ClassVar[float] = 0.25
    """Of the faults about which is asked when they are over."""
    negative_share: ClassVar[float] = 0.0
    """Of the faults of which a negative answer is tried if there is one; of others, if no positive one shows more."""
    survives_s: ClassVar[float] = 15.0
    """How long a quorum may take to commit, and a restarted controller to be level."""
    lab: ClassVar[Callable[..., ChaosLab]] = ChaosLab
    folder: Path
    seed: int
    rounds: int
    say: Callable[[str], None]
    faults: Sequence[ChaosFault] = FORECAST_FAULTS
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Answers by state of the quorum, question and column."""
    refused: Counter[str] = field(default_factory=Counter)
    """What negative answers said of a quorum whose fault is over."""
    injected: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    """Positive answers that were false, unknown ones about a healthy quorum, and what went wrong with the run."""
    context: ChaosContext = field(init=False)
    monitor: MonitoredCluster = field(init=False)

    def run(self) -> None:
        """Runs all rounds; ends early if the quorum does not recover."""
        self.folder.mkdir(parents=True, exist_ok=True)
        options = self.kinds[self.seed % len(self.kinds)]
        controllers = 5 if self.seed // len(self.kinds) % 2 else 3
        with ExitStack() as stack:
            lab = stack.enter_context(self.lab(self.folder / "lab", controllers=controllers, brokers=0, **options))
            login = self._login(lab)
            cluster = cluster_of(lab, hosts_file=str(lab.monitor_hosts_file), options=login)
            self.monitor = monitored_cluster_of(
                lab, stack.enter_context(run_gatherer(self.folder / "monitor", cluster))
            )
            if login:
                settings = replace(self.monitor.monitor.settings, access=Access(protocol=login["security_protocol"]))
                self.monitor.monitor.settings = settings
            # Each round starts controllers again: that is no loop.
            self.monitor.set_thresholds({})
            self.context = ChaosContext(
                lab=lab,
                facts=FactLog(),
                random=random.Random(self.seed),
                folder=self.folder,
                leader=lambda: None if (state := lab.state) is None else state.leader_id,
            )
            self.say(f"{controllers} controllers, {dict(options) or 'dynamic'}; {self.folder}")
            try:
                self._ask_while_healthy("at the start")
                for number in range(1, self.rounds + 1):
                    fault, node, steps = self._inject()
                    name = f"{number}: {fault.name}{f' ({node})' if node else ''}"
                    began = time.monotonic()
                    self._round(name, node, steps, ends_first=fault.name == _ENDS_FIRST)
                    self._ask_while_healthy(f"after {name}")
                    self.say(f"  {time.monotonic() - began:.0f} s")
            except (LabError, AssertionError) as error:
                self.problems.append(f"the run ended: {error}")

    def report(self) -> Iterator[str]:
        """Yields the table of counts."""
        for state, question in sorted({key[:2] for key in self.counts}):
            found = (f"{column} {self.counts[state, question, column]}" for column in _COLUMNS)
            yield f"{state}, {question}: {', '.join(found)}"
        yield from (f"healthy, negative {count} times: {text}" for text, count in self.refused.most_common())

    @staticmethod
    def _login(lab: ChaosLab) -> Mapping[str, str]:
        if not lab.login:
            return {}
        trusted = lab.directory / "trusted.pem"
        trusted.write_bytes(trusted_authorities(lab))
        return {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(trusted),
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": ADMIN,
            "sasl_plain_password": lab.security.passwords[ADMIN],
        }

    def _inject(self) -> tuple[ChaosFault, int, Iterator[None]]:
        """Begins a fault that is possible now."""
        context, lab = self.context, self.context.lab
        for _ in range(ATTEMPTS):
            fault = context.random.choices(self.faults, [one.weight for one in self.faults])[0]
            needs = fault.needs(context)
            unfit = lab.static and ("membership" in needs or fault.name == _LEAVE_NO_QUORUM)
            if unfit or _BROKERS in needs or not all(needs.values()):
                continue
            node = next(context.random.choice(choices) for choices in needs.values())
            steps = fault.run(context, node)
            try:
                next(steps)
            except (NotNowError, StopIteration):
                continue
            self.injected[fault.name] += 1
            return fault, node, steps
        raise LabError(f"none of these faults is possible here: {', '.join(one.name for one in self.faults)}")

    def _round(self, name: str, faulty: int, steps: Iterator[None], *, ends_first: bool) -> None:
        """Asks while the fault is there, or as soon as it has ended, tries one answer, and ends the fault."""
        choose = self.context.random
        over = ends_first or choose.random() < self.over_share
        if over:
            name += ", just over"
            _end(steps)
        since_ms = time.time() * 1_000
        try:
            self.monitor.wait_for_quorum(lambda seen: is_current(seen, since_ms), within_s=CURRENT_S)
            answers = self._ask("fault")
            self.say(f"{name}: {' '.join(map(_short, answers))}")
            positive = [one for one in answers if one.positive]
            negative = [one for one in answers if one.positive is False]
            # That the controller with the fault may be lost shows little.
            tried = [one for one in positive if one.node != faulty] or choose.choice([positive, negative])
            if negative and choose.random() < self.negative_share:
                tried = negative
            if tried:
                question = choose.choice(sorted({one.question for one in tried}))
                asked = [one for one in tried if one.question == question]
                of_leader = [one for one in asked if one.node == self.monitor.machine.quorum().leader_id]
                self._try(name, choose.choice(choose.choice([asked, of_leader or asked])), answers, faulty)
        except AssertionError as error:
            self.problems.append(f"{name}: {error}")
        if not over:
            _end(steps)

    def as_asked(self, seen: Quorum) -> Quorum:
        """Returns the quorum about which is asked, as the monitor sees it."""
        return seen

    def is_proved(self, answer: Answer) -> bool:
        """Returns whether a negative answer must be right too, and not only careful."""
        return False

    def _ask(self, state: str) -> Sequence[Answer]:
        settings = self.monitor.monitor.settings
        answers = [*answers_of(self.as_asked(self.monitor.machine.quorum()), settings.thresholds)]
        for one in answers:
            column = {True: "positive", False: "negative", None: "unknown"}[one.positive]
            self.counts[state, one.question, column] += 1
        return answers

    def _await_all_voters(self) -> None:
        """Waits until all voters follow, and starts what ends meanwhile: one that was denied ends some time later."""
        lab, first = self.context.lab, dict[str, int]()

        def all_follow() -> None:
            lab.start(*(one for one in lab.controllers if not lab.node(one).running), wait=False)
            state = self._state()
            until = first.setdefault("high watermark", state.high_watermark) + NEW_RECORDS
            assert {*lab.controllers} == state.voter_ids
            assert all(one.log_end_offset > until for one in state.voters), state.voters

        eventually(all_follow, within_s=CHANGE_TIMEOUT_S, every_s=0.5)

    def _ask_while_healthy(self, when: str) -> None:
        """Waits until all voters follow and all is known, and asks again with later polls."""
        self._await_all_voters()
        since_ms = time.time() * 1_000
        thresholds = self.monitor.monitor.settings.thresholds

        def known(seen: Quorum) -> bool:
            answers = answers_of(self.as_asked(seen), thresholds)
            return is_current(seen, since_ms) and all(
                one.positive is not None or UNTRIED in one.text for one in answers
            )

        try:
            self.monitor.wait_for_quorum(known, within_s=CURRENT_S)
        except AssertionError as error:
            self.problems.append(f"{when}, healthy: {error}")
        for _ in range(self.healthy_polls):
            before = self.monitor.machine.quorum().poll
            self.monitor.wait_for_quorum(partial(_is_polled_again, before))
            for one in self._ask("healthy"):
                if one.positive is None and UNTRIED in one.text:
                    self.counts["healthy", one.question, "after a start"] += 1
                elif one.positive is None:
                    self.problems.append(f"{when}, healthy: {one.question} {one.node}: unknown: {one.text}")
                elif not one.positive:
                    self.refused[one.text] += 1

    # ---- what happens

    def _try(self, name: str, answer: Answer, answers: Sequence[Answer], faulty: int) -> None:
        lab, quorum = self.context.lab, self.monitor.machine.quorum()
        ran = {node for node in lab.controllers if lab.node(node).running}
        leader = quorum.leader_id
        # One that is paused does not end by SIGTERM.
        orderly = answer.question == RESTART and answer.positive and answer.node != faulty
        facts = Facts(quorum).nodes.get(answer.node)
        follows = facts is not None and facts.following.fetches
        survives = self._survives(answer, ran, lab.stop if orderly else lab.kill, follows=follows)
        kind = "positive" if answer.positive else "negative"
        self.counts["fault", answer.question, f"tried {kind}"] += 1
        self.say(f"  {answer.question} {answer.node} was {kind}: {'commits' if survives else 'NO COMMIT'}")
        for node in lab.controllers:
            if lab.node(node).running and node not in ran:
                lab.kill(node)
        lab.start(*(node for node in ran if not lab.node(node).running), wait=False)
        said = "; ".join(f"{one.question} {one.node}: {one.positive} {one.text}" for one in answers)
        if survives:
            if not answer.positive and self.is_proved(answer):
                self.problems.append(f"{name}: false {answer.question} {answer.node}; {said}\n{describe(quorum)}")
            return
        if not answer.positive:
            self.counts["fault", answer.question, "harmful"] += 1
        elif self._has_unused_broken_path(leader, set() if answer.question == RESTART else {answer.node}):
            self.counts["fault", answer.question, UNUSED_PATHS] += 1
        else:
            self.counts["fault", answer.question, "false"] += 1
            self.problems.append(f"{name}: false {answer.question} {answer.node}; {said}\n{describe(quorum)}")

    def _has_unused_broken_path(self, leader: int | None, lost: set[int]) -> bool:
        """Returns whether a path is broken over which nothing is sent while this controller leads, and that matters."""
        paths = self.context.lab.filter.paths
        observed = {one.target for one in paths if one.source == MONITOR}
        unused = (one for one in paths if one.target not in {leader, *observed})
        return any(lost.isdisjoint({one.source, one.target}) for one in unused)

    def _survives(self, answer: Answer, ran: set[int], end: Callable[[int], None], *, follows: bool) -> bool:
        """Loses or restarts the controller; returns whether the others commit, and it follows again if it did."""
        lab, node = self.context.lab, answer.node
        others = sorted(ran - {node})
        if node in ran:
            end(node)
        if answer.question == LOSE:
            lab.kill(*others)
            lab.start(*others, wait=False)
        seen: dict[tuple[int, int], int] = {}

        def commits() -> None:
            state = self._state()
            first = seen.setdefault((state.leader_id, state.leader_epoch), state.high_watermark)
            assert state.high_watermark > max(first, 0) + NEW_RECORDS

        def follows_again() -> None:
            state = self._state()
            rows = (*state.voters, *state.observers)
            level = any(one.id == node and one.log_end_offset > until for one in rows)
            assert level or state.leader_id == node

        try:
            eventually(commits, within_s=self.survives_s, every_s=0.3)
            if answer.question == RESTART:
                until = self._state().high_watermark
                lab.start(node, wait=False)
                seen.clear()
                eventually(follows_again if follows else commits, within_s=self.survives_s, every_s=0.3)
        except AssertionError:
            return False
        return True

    def _state(self) -> QuorumState:
        state = self.context.lab.state
        assert state is not None, "no leader"
        return state


def _short(answer: Answer) -> str:
    words = {True: "yes", False: "no", None: "?"}
    return f"{answer.question.removeprefix('what-if ')} {answer.node}={words[answer.positive]}"


def _end(steps: Iterator[None]) -> None:
    """Continues a fault until it has ended."""
    eventually(lambda: next(steps, steps) is steps, within_s=60, every_s=1.0)


def _is_polled_again(before: Poll | None, quorum: Quorum) -> bool:
    return quorum.poll is not None and (before is None or quorum.poll.observed_at_ms > before.observed_at_ms)


def is_current(quorum: Quorum, since_ms: float) -> bool:
    """Returns whether no observation that counts now, and no fetch in the newest poll, is from before this time.

    A leader answers a waiting fetch half a second later, also one of a process that has ended, and one that is cut off
    answers as leader for seconds.
    """
    fetch_ms, poll = quorum.ages.fetch_ms + LATE_MS, quorum.poll
    if quorum.now_ms < since_ms + fetch_ms:
        return False
    facts = [one for node in Facts(quorum).nodes.values() for one in (node.probe, node.view) if one is not None]
    observed_ms = [one.observed_at_ms for one in facts]
    if poll is not None and fresh_poll(quorum) is not None:
        observed_ms.append(Millis(poll.observed_at_ms - fetch_ms))
    return all(at_ms >= since_ms for at_ms in observed_ms)
