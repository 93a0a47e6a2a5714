"""The path of the file in which a sink keeps the state of its destination."""

import hashlib
import re
from pathlib import Path


def state_file(folder: Path, name: str) -> Path:
    """Returns the path for a sink's name, which may contain any character. The form of the path is stored."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return folder / f"sink-{re.sub('[^A-Za-z0-9]+', '-', name).strip('-')[:40]}-{digest}.json"
