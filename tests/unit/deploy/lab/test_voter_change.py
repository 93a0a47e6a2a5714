"""A change of the voters to which Kafka says "timed out": it goes on, or was never begun, and the lab sees which."""

from pathlib import Path
from typing import Any

import pytest

from deploy.lab import lab as lab_module
from deploy.lab.kafka_requests import QuorumState, ReplicaState
from deploy.lab.lab import Lab
from deploy.lab.lab_errors import LabError

NOT_IN_TIME = "kafka-metadata-quorum remove-controller failed with exit code 1:\norg.apache.kafka.common.errors."


def led(*voters: int) -> QuorumState:
    rows = tuple(ReplicaState(id=id_, directory_id=f"dir-{id_}", log_end_offset=9, caught_up=True) for id_ in voters)
    return QuorumState(leader_id=1, leader_epoch=1, high_watermark=9, voters=rows, observers=(), endpoints={})


class Asked(Lab):
    """Of three voters; what becomes of each request, `script` says."""

    def __init__(self, folder: Path, *script: str) -> None:
        super().__init__(folder)
        self.voters = {1, 2, 3}
        self.script = list(script)
        self.tools: Any = self

    @property
    def state(self) -> QuorumState:
        """The voters of now."""
        return led(*self.voters)

    def remove_controller(self, id_: int, directory_id: str | None = None) -> None:
        """As the lab's verb and, below it, as Kafka's tool."""
        if directory_id is None:
            super().remove_controller(id_, f"dir-{id_}")
            return
        said = self.script.pop(0)
        if said in ("made", "goes on"):
            self.voters.discard(id_)
        if said != "made":
            raise LabError(NOT_IN_TIME + ("VoterNotFoundException" if said == "refused" else "TimeoutException"))


@pytest.mark.parametrize("script", [("made",), ("goes on",), ("not begun", "made"), ("not begun", "not begun", "made")])
def test_it_is_asked_for_until_it_is_made(
    script: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_module, "SETTLED_WITHIN_S", 0)
    lab = Asked(tmp_path, *script)

    lab.remove_controller(3)

    assert (lab.voters, lab.script) == ({1, 2}, [])


def test_what_kafka_refuses_is_told(tmp_path: Path) -> None:
    lab = Asked(tmp_path, "refused", "made")

    with pytest.raises(LabError, match="VoterNotFoundException"):
        lab.remove_controller(3)
    assert lab.voters == {1, 2, 3}
