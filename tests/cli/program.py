"""`kraftwatch` in the process of the test, and what its commands are given."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from connectors.errors import UsageError
from streaming.cli import app

OTHER_USER = 54_321


def kraftwatch(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def usage_error(*words: object) -> str:
    """Returns the one sentence with which a command ends; the command line turns it into exit code 2."""
    ended = kraftwatch(*words)
    assert isinstance(ended.exception, UsageError), f"{ended.output} {ended.exception}"
    assert ended.stdout == ""
    message = str(ended.exception)
    assert "\n" not in message
    return message


def log_dirs(stopped: Path, *nodes: int) -> list[str]:
    """Returns the options that name the disks of these nodes."""
    return [part for node in nodes for part in ("--log-dir", str(stopped / f"node-{node}"))]


def free_port() -> int:
    """Returns a port of 127.0.0.1 at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def json_lines(ended: Result, *, exit_code: int = 0) -> list[dict[str, Any]]:
    """Returns the JSON lines that a command printed."""
    assert ended.exit_code == exit_code, f"{ended.output} {ended.exception}"
    return [json.loads(line) for line in ended.stdout.splitlines()]


def owned_by_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a command in this process run as root on a folder of another user."""
    if os.geteuid() == 0:
        os.chown(folder, OTHER_USER, OTHER_USER)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
