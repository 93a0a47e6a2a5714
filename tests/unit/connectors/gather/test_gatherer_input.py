import json

import pytest

from connectors.errors import UsageError
from connectors.gather.gatherer_input import (
    ControlMessage,
    GathererSettings,
    LogPause,
    PollRequest,
    ReportedRow,
    message_from_line,
    message_to_line,
    settings_from_line,
    settings_to_line,
)
from connectors.kafka.cluster_connection import ClusterConnection
from rules.model.identifiers import Millis, NodeId
from rules.model.witness import DialStep, PeerDial, Reached, WitnessRow

SECRET = "secret-password"
SETTINGS = GathererSettings(
    clusters=(
        ClusterConnection(
            name="a",
            bootstrap=(("c1", 9093), ("c2", 9093)),
            options={"sasl_plain_password": SECRET, "ssl_check_hostname": False},
            resolve={"c1": "10.0.0.1"},
        ),
    ),
    journal="somewhere",
)


def test_settings_round_trip_as_one_line() -> None:
    line = settings_to_line(SETTINGS)
    assert line.count(b"\n") == 1
    assert settings_from_line(line) == SETTINGS


def test_invalid_field_is_named_without_its_value() -> None:
    broken = json.loads(settings_to_line(SETTINGS))
    broken["clusters"][0]["options"] = {"sasl_plain_password": [SECRET]}
    with pytest.raises(UsageError, match=r"clusters\.0\.options\.sasl_plain_password") as problem:
        settings_from_line(json.dumps(broken).encode())
    assert SECRET not in str(problem.value)


def test_missing_settings_line_is_rejected() -> None:
    with pytest.raises(UsageError, match="settings"):
        settings_from_line(b"")


@pytest.mark.parametrize("line", [b"", b"\n", b"{}", b"prod 5", b'{"cluster": "a", "at_ms": "soon"}'])
def test_invalid_control_message_is_rejected(line: bytes) -> None:
    with pytest.raises(ValueError, match="validation error"):
        message_from_line(line)


@pytest.mark.parametrize(
    "message",
    [
        PollRequest(cluster="prod", at_ms=1_800_000_000_000, quiet_until_ms=0),
        LogPause(cluster="prod", pause_ms=2_000),
        ReportedRow(
            cluster="prod",
            row=WitnessRow(
                node=NodeId(1),
                cluster_id="x",
                at_ms=Millis(5),
                login="",
                peers=(PeerDial(node=NodeId(2), endpoint="c2:1", reached=Reached.NO, step=DialStep.TLS, why="a\nb"),),
            ),
        ),
    ],
)
def test_control_message_round_trips_as_one_line(message: ControlMessage) -> None:
    line = message_to_line(message)

    assert line.count(b"\n") == 1
    assert message_from_line(line) == message
