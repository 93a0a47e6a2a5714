"""Two terminals that roll one cluster: `--announce` lets one node be away at a time."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connectors.process import wall_clock
from rules.evaluate import thresholds_for
from rules.model.identifiers import NodeId
from streaming.cli.options import RestartOptions
from streaming.cli.safe_to_restart import _Back, _SafeToRestart
from tests.agreement.outputs import cluster_state
from tests.situation.commands import situation

STATE = cluster_state(situation("brokers 101,102,103", "append config cluster min-isr 1 since 2d"), thresholds_for({}))


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the cluster's state."""
    monkeypatch.setattr(wall_clock, "wall_ms", lambda: STATE.quorum.now_ms)


def options(folder: Path, announce: float = 600.0) -> RestartOptions:
    config = folder / "kraftwatch.yaml"
    cluster = {"name": STATE.quorum.cluster, "bootstrap": ["127.0.0.1:1"]}
    config.write_text(json.dumps({"checkpoint": str(folder), "clusters": [cluster]}))
    return RestartOptions(config=config, announce=announce)


def asked(opts: RestartOptions, node: int) -> tuple[bool | None, Sequence[str]]:
    question = _SafeToRestart(opts, [NodeId(node)])
    question.is_settled(STATE)
    return question.answer, [reason.name for answer in question._answers for reason in answer.against]


def test_one_of_two_terminals_restarts_at_a_time(tmp_path: Path) -> None:
    opts = options(tmp_path)

    with ThreadPoolExecutor(4) as terminals:
        answers = [*terminals.map(lambda node: asked(opts, node), (1, 2, 3, 101))]

    yes = [node for node, (answer, _) in zip((1, 2, 3, 101), answers, strict=True) if answer]
    assert len(yes) == 1, answers
    assert {name for answer, names in answers if not answer for name in names} == {"announced-restart"}
    assert asked(opts, yes[0]) == (True, []), "the node itself may be restarted again"
    assert asked(options(tmp_path, 0.0), 102) == (False, ["announced-restart"]), "also without --announce"


def test_the_next_node_follows_when_the_first_one_is_back(tmp_path: Path) -> None:
    opts = options(tmp_path)
    assert asked(opts, 1) == (True, [])

    _Back(options(tmp_path, 0.0), NodeId(1))._end_announcement(STATE.quorum.cluster)

    assert asked(opts, 2) == (True, [])
