"""docs/rescue.md: its commands are run on the disks of the real quorum that it shows, and their outputs compared."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streaming.cli import app
from tests.unit.connectors.logdir.log_dirs import stopped_quorum

PAGE = Path(__file__).parents[2] / "docs" / "rescue.md"
_BLOCK = re.compile(r"```console\n\$ kraftwatch (?P<command>.*)\n(?P<output>(?:.*\n)+?)```")


def test_every_command_of_the_page_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped_quorum(tmp_path)
    monkeypatch.chdir(tmp_path)
    blocks = [*_BLOCK.finditer(PAGE.read_text())]

    for block in blocks:
        ended = CliRunner().invoke(app, shlex.split(block["command"]))
        assert ended.exception is None or isinstance(ended.exception, SystemExit), block["command"]
        assert block["output"] in ended.stdout, block["command"]
    assert len(blocks) == 7
