"""Finds the helm that `make helm` builds, or the one on the PATH."""

import shutil
import sys
from pathlib import Path


def helm_program() -> str | None:
    """Returns the path of helm; None where it is missing."""
    built = Path(sys.executable).parent / "helm"
    return str(built) if built.exists() else shutil.which("helm")
