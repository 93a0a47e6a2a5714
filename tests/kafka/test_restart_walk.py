"""Random walks over real clusters: nodes fail and come back, each answer of `safe-to-restart` is tried.

A yes is taken: nothing may fail. A refusal is overridden now and then: where nothing failed, it was needless. The
restarts of the walk are announced; nodes that it kills are not.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from deploy.lab import LabError
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.kafka.acks_all import TOPICS
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(3_600)]
KINDS: Mapping[str, Mapping[str, Any]] = {
    "dynamic": {"controllers": 3, "brokers": 3},
    "combined, static": {"controllers": 0, "combined": 3, "static": True},
    "3.9, static": {"controllers": 3, "brokers": 3, "version": "3.9.2", "static": True},
}
STEPS = 40
_LEADS_S = 15.0
"""How long the others may take to elect a leader, on a busy machine."""


@dataclass(kw_only=True)
class Walk:
    """One walk over a cluster."""

    lab: Lab
    config: Path
    random: Random
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    down: list[int] = field(default_factory=list)
    """The nodes that the walk has stopped or killed, and not started again."""

    def run(self) -> None:
        """Takes all steps."""
        for number in range(STEPS):
            self._disturb()
            running = [node for node in self._nodes if node not in self.down]
            self._step(number, self.random.choice(running))
        self._heal()
        assert self._ask(self._nodes[0], "--wait", "3m")["safe"], "healthy again"

    @property
    def _nodes(self) -> list[int]:
        return sorted({*self.lab.controllers, *self.lab.brokers})

    def _ask(self, node: int, *options: str) -> dict[str, Any]:
        ended = kraftwatch("safe-to-restart", node, "--json", "--config", self.config, *options)
        assert ended.stdout, f"{ended.output} {ended.exception}"
        answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        return answer

    def _step(self, number: int, node: int) -> None:
        answer = self._ask(node, "--announce", "2m")
        names = [reason["name"] for reason in answer["reasons"]]
        print(f"{number}: node {node}, down {self.down}: {answer['safe']}", names, answer["unknown"])  # noqa: T201
        self.counts[f"answers {answer['safe']}"] += 1
        if answer["safe"] is None:
            self.counts["unknown: " + "; ".join(answer["unknown"])[:80]] += 1
            return
        if not answer["safe"]:
            for reason in answer["reasons"]:
                assert reason["until"] or reason["name"] in {"must-run", "no-majority"}, reason
            # Without a majority nothing starts again by itself, and no node is given up that holds records.
            if self.random.random() < 0.5 or {"no-majority", "no-leader", "must-run", "last-replica"} & {*names}:
                return
        failed = self._restart(node)
        said = "yes" if answer["safe"] else "refused"
        self.counts[f"{said}, {'failed' if failed else 'nothing failed'}"] += 1
        if answer["safe"] and failed:
            self.wrong.append(f"step {number}: node {node} was safe, and {failed}; down: {self.down}")
        elif not answer["safe"] and not failed:
            self.counts[f"needless: {'; '.join(names)}"] += 1

    def _restart(self, node: int) -> str:
        """Restarts a node; returns what failed without it: a producer may be slow, and must be served."""
        lab, failed = self.lab, ""
        lab.stop(node)
        if node in lab.controllers:
            try:
                eventually(lambda: leads_without(lab, node), within_s=_LEADS_S)
            except AssertionError:
                failed = "no leader was elected"
        for topic in TOPICS:
            try:
                lab.produce(topic, 12)
            except LabError as error:
                failed = failed or f"producers were refused: {error}"
        lab.start(node, wait=False)
        back = self._ask(node, "--after", "--wait", "3m")
        said = "; ".join((*back["missing"], *back["unknown"]))[:90]
        self.counts["back" if back["back"] else f"not back: {said}"] += 1
        return failed

    def _disturb(self) -> None:
        """Stops, kills or starts a node, or makes a topic that needs all its replicas but one."""
        chance = self.random.random()
        if self.down and chance < 0.6:
            self._heal()
        elif not self.down and chance < 0.3:
            node = self.random.choice(self._nodes)
            (self.lab.kill if self.random.random() < 0.5 else self.lab.stop)(node)
            self.down.append(node)
        elif not self.down and chance < 0.4:
            with suppress(LabError):
                self.lab.create_topic(
                    f"made-{self.random.randrange(10**6)}", 2, 3, configs={"min.insync.replicas": "2"}
                )

    def _heal(self) -> None:
        for node in self.down:
            self.lab.start(node, wait=False)
            back = self._ask(node, "--after", "--wait", "3m")
            assert back["back"], back
        self.down.clear()


def leads_without(lab: Lab, node: int) -> None:
    state = lab.state
    assert state is not None
    assert state.leader_id not in {None, -1, node}


@pytest.mark.parametrize("kind", KINDS)
def test_each_answer_is_what_then_happens(kind: str, lab: Callable[..., Lab], tmp_path: Path) -> None:
    quorum = lab(**KINDS[kind])
    for topic in TOPICS:
        quorum.create_topic(topic, partitions=6, replication=3, configs={"min.insync.replicas": "2"})
    config = tmp_path / "kraftwatch.yaml"
    cluster = {"name": "lab", "bootstrap": quorum.bootstrap, "min_isr": 1}
    config.write_text(json.dumps({"checkpoint": str(tmp_path / "checkpoint"), "clusters": [cluster]}))
    (tmp_path / "checkpoint").mkdir()
    walk = Walk(lab=quorum, config=config, random=Random(kind))
    try:
        walk.run()
    finally:
        print(kind, dict(walk.counts), walk.wrong)  # noqa: T201

    assert walk.wrong == []
    answered = walk.counts["answers True"] + walk.counts["answers False"]
    assert walk.counts["refused, nothing failed"] * 20 <= answered, walk.counts
