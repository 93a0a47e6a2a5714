"""What the machine refuses (a full disk, a folder of somebody else) is one sentence too."""

import errno
import os

import pytest

from streaming import cli


def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/checkpoint/cluster.tmp")

    monkeypatch.setattr(cli, "app", full)

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 1
    assert capsys.readouterr().err == "kraftwatch: /data/checkpoint/cluster.tmp: no space left on device\n"
