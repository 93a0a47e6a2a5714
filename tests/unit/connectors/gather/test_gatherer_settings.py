import json

import pytest

from connectors.errors import UsageError
from connectors.gather.commit_buffer import FetchPosition
from connectors.gather.gatherer_settings import GathererSettings, from_line, to_line
from connectors.kafka.cluster_connection import ClusterConnection

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
    resume={"a": FetchPosition(offset=7, epoch=2)},
)


def test_settings_round_trip_as_one_line() -> None:
    line = to_line(SETTINGS)
    assert line.count(b"\n") == 1
    assert from_line(line) == SETTINGS


def test_invalid_field_is_named_without_its_value() -> None:
    broken = json.loads(to_line(SETTINGS))
    broken["clusters"][0]["options"] = {"sasl_plain_password": [SECRET]}
    with pytest.raises(UsageError, match=r"clusters\.0\.options\.sasl_plain_password") as problem:
        from_line(json.dumps(broken).encode())
    assert SECRET not in str(problem.value)


def test_missing_settings_line_is_rejected() -> None:
    with pytest.raises(UsageError, match="settings"):
        from_line(b"")
