"""The version of a build: that of a release, or one that says from which commit it is built.

`pip install` replaces an older build by a newer one because each commit's version is higher than that of the commits
before it (PEP 440: `0.1.0.dev1502+g4a591854` is before `0.1.0`).
"""

import subprocess
from pathlib import Path

RELEASE = "0.1.0"
"""The next release, or the one that the commit with the tag `v0.1.0` is."""


def version(root: Path = Path(__file__).parents[1]) -> str:
    """Returns the version of what is built in this checkout; `RELEASE.dev0` in a folder without its history."""
    sha = _git(root, "rev-parse", "--short=8", "HEAD")
    if sha is None:
        return f"{RELEASE}.dev0"
    changed = ".changed" if _git(root, "status", "--porcelain", "--untracked-files=no") else ""
    if not changed and f"v{RELEASE}" in (_git(root, "tag", "--points-at", "HEAD") or "").split():
        return RELEASE
    return f"{RELEASE}.dev{_git(root, 'rev-list', '--count', 'HEAD')}+g{sha}{changed}"


def _git(root: Path, *words: str) -> str | None:
    """Returns what git prints; None if there is no git, or no history."""
    try:
        ran = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return ran.stdout.strip()
