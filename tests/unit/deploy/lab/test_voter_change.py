"""Voter changes that Kafka answers with a time-out: the change continues or never began, and the lab sees which."""

from pathlib import Path

import pytest

from deploy.lab import LabError
from deploy.lab.kafka_requests import DescribedReplica, QuorumState
from tests import lab as lab_module
from tests.lab import Lab

TOOL_FAILED = "kafka-metadata-quorum remove-controller failed with exit code 1:\norg.apache.kafka.common.errors."


def state_with_voters(*voters: int) -> QuorumState:
    rows = tuple(
        DescribedReplica(id=id_, directory_id=f"dir-{id_}", log_end_offset=9, caught_up=True) for id_ in voters
    )
    return QuorumState(leader_id=1, leader_epoch=1, high_watermark=9, voters=rows, observers=(), endpoints={})


class ScriptedLab(Lab):
    """A lab with three voters; `script` has the result of each request."""

    def __init__(self, folder: Path, *script: str) -> None:
        super().__init__(folder)
        self.voters = {1, 2, 3}
        self.script = list(script)

    @property
    def state(self) -> QuorumState:
        """The current voters."""
        return state_with_voters(*self.voters)

    def request_removal(self, id_: int, directory_id: str) -> None:
        """Replaces Kafka's tool."""
        result = self.script.pop(0)
        if result in ("committed", "committed late"):
            self.voters.discard(id_)
        if result != "committed":
            raise LabError(TOOL_FAILED + ("VoterNotFoundException" if result == "refused" else "TimeoutException"))


@pytest.mark.parametrize(
    "script", [("committed",), ("committed late",), ("not begun", "committed"), ("not begun", "not begun", "committed")]
)
def test_voter_change_is_requested_until_it_is_committed(
    script: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_module, "TIMED_OUT_CHANGE_S", 0)
    lab = ScriptedLab(tmp_path, *script)

    lab.remove_controller(3, "dir-3")

    assert (lab.voters, lab.script) == ({1, 2}, [])


def test_refused_voter_change_raises_kafkas_error(tmp_path: Path) -> None:
    lab = ScriptedLab(tmp_path, "refused", "committed")

    with pytest.raises(LabError, match="VoterNotFoundException"):
        lab.remove_controller(3, "dir-3")
    assert lab.voters == {1, 2, 3}
