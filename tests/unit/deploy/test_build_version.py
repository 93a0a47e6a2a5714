"""The version of a build says from which commit it is built."""

import subprocess
from pathlib import Path

import pytest
from packaging.version import Version

from deploy.build_version import RELEASE, version


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "one")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(["git", "-C", folder, *identity, *words], capture_output=True, text=True, check=True).stdout


def commit(folder: Path, text: str) -> None:
    (folder / "file").write_text(text)
    git(folder, "add", "file")
    git(folder, "commit", "--quiet", "--message", text)


def test_each_commit_has_a_higher_version_and_the_release_the_highest(checkout: Path) -> None:
    first = Version(version(checkout))
    commit(checkout, "two")
    second = version(checkout)
    assert second == f"{RELEASE}.dev2+g{git(checkout, 'rev-parse', '--short=8', 'HEAD').strip()}"

    git(checkout, "tag", f"v{RELEASE}")
    assert version(checkout) == RELEASE
    assert first < Version(second) < Version(RELEASE)


def test_what_is_not_committed_is_no_release(checkout: Path) -> None:
    git(checkout, "tag", f"v{RELEASE}")
    (checkout / "file").write_text("changed")
    assert version(checkout).endswith(".changed")


def test_a_folder_without_history_is_older_than_every_commit(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copied = tmp_path_factory.mktemp("archive")
    assert version(copied) == f"{RELEASE}.dev0"
    assert Version(version(copied)) < Version(version(checkout))
