"""Addresses as HOST:PORT."""

import pytest

from rules.model.identifiers import Endpoint, host_of


@pytest.mark.parametrize(
    ("host", "address"), [("c1", "c1:9093"), ("10.0.0.1", "10.0.0.1:9093"), ("fd00::1", "[fd00::1]:9093")]
)
def test_an_address_of_version_6_is_in_brackets_and_a_host_is_not(host: str, address: str) -> None:
    assert str(Endpoint(listener="CONTROLLER", host=host, port=9093)) == address
    assert host_of(address) == host
