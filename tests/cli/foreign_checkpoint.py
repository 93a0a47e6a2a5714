"""A checkpoint folder that does not belong to the user who runs a command."""

import os
from pathlib import Path

import pytest

OTHER_USER = 54_321


def owned_by_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a command in this process run as root on a folder of another user."""
    if os.geteuid() == 0:
        os.chown(folder, OTHER_USER, OTHER_USER)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
