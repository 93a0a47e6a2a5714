"""A VotersRecord as bytes."""

from typing import Any

from tests.unit.connectors.metadata.metadata_record_schemas import raft_value

UUID = bytes(range(16))


LISTENER = {"name": "CONTROLLER", "host": "c1.test", "port": 9093, "security_protocol": 0}


VOTER = {
    "voter_id": 1,
    "voter_directory_id": UUID,
    "endpoints": [LISTENER],
    "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
}


def voters(*listed: dict[str, Any]) -> tuple[bytes, bytes]:
    return raft_value(6, voters=[{**VOTER, **voter} for voter in listed])
