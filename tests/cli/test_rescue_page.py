"""The commands of docs/rescue.md; `transcripts/rescue_plan.txt` has more of them."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.program import kraftwatch

PAGE = Path(__file__).parents[2] / "docs" / "rescue.md"
_BLOCK = re.compile(r"```console\n\$ kraftwatch (?P<command>.*)\n(?P<output>(?:.*\n)+?)```")


def test_every_command_of_the_page_prints_what_the_page_shows(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands are for the disks of the same quorum."""
    monkeypatch.chdir(stopped)
    blocks = [*_BLOCK.finditer(PAGE.read_text())]

    for block in blocks:
        ended = kraftwatch(*shlex.split(block["command"]))
        assert ended.exception is None or isinstance(ended.exception, SystemExit), block["command"]
        assert block["output"] in ended.stdout, block["command"]
    assert len(blocks) == 8
