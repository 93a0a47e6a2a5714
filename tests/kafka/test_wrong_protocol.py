"""Settings for TLS at controllers without TLS, which accept requests larger than their memory: they must survive it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from tests.cli import program
from tests.eventually import eventually
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]
_LARGER_THAN_A_TLS_HANDSHAKE = {"socket.request.max.bytes": "500000000"}
"""The first bytes of a TLS ClientHello, read as a length, are 369 MB; a controller of the lab has 256 MB."""


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=0, properties=_LARGER_THAN_A_TLS_HANDSHAKE)


def config(folder: Path, lab: Lab, **more: Any) -> Path:
    file = folder / f"{more.get('security_protocol', 'right')}.yaml"
    section = {"name": "prod", "bootstrap": lab.bootstrap, "cluster_id": lab.cluster_id, **more}
    file.write_text(yaml.safe_dump({"clusters": [section]}))
    return file


def kraftwatch(verb: str, file: Path, *more: str) -> Result:
    return program.kraftwatch(verb, "--config", str(file), *more)


def test_settings_for_tls_end_no_controller_without_tls_and_are_named_as_the_cause(lab: Lab, tmp_path: Path) -> None:
    wrong = config(tmp_path, lab, security_protocol="SSL")
    checked = kraftwatch("check", wrong)
    reported = json.loads(kraftwatch("check", wrong, "--json").stdout)
    examined = kraftwatch("doctor", wrong)

    assert checked.exit_code == 3, checked.output
    assert "security_protocol" in checked.output
    assert "tart the controllers" not in checked.output
    (blind,) = (one for one in reported["findings"] if one["rule"] == "monitor-blind")
    assert {one["reason"] for one in blind["evidence"]["failing"]} == {"wrong-protocol"}
    assert any("Correct security_protocol in the monitor's settings" in line for line in blind["remedy"])
    assert "correct security_protocol in the settings" in examined.output

    assert all(lab.node(number).running for number in (1, 2, 3))

    def observed() -> None:
        assert kraftwatch("check", config(tmp_path, lab)).exit_code == 0

    eventually(observed, within_s=60)
