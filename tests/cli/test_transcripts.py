"""The transcripts of commands: `tests.cli.transcript` has their form. `make goldens` writes their output: read it."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.transcript import Session
from tests.scripts.script_text import assert_output

TRANSCRIPTS = Path(__file__).parent / "transcripts"


@pytest.mark.parametrize("topic", sorted(path.stem for path in TRANSCRIPTS.iterdir()))
def test_each_command_of_the_transcript_prints_and_does_this(
    topic: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        session = Session(tmp_path, lambda: request.getfixturevalue("recorded"), monkeypatch, stack)
        assert_output(TRANSCRIPTS / f"{topic}.txt", session.run, nothing="nothing")
