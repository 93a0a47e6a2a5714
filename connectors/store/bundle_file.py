"""A bundle: the recorded files of a checkpoint in one compressed file, which is read like the checkpoint itself."""

import atexit
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

from connectors.errors import UsageError, os_errors
from connectors.store.stored_json import parse_json

MANIFEST: Final = "bundle.json"
_LARGEST_BYTES: Final = 64 << 30
"""A bundle that says it is larger, unpacked, is refused."""


@cache
def unpacked_bundle(file: Path) -> Path:
    """Unpacks a bundle into a temporary folder, which is deleted when the process ends; returns the folder.

    Raises UsageError if the file is not a bundle, or the folder cannot be written.
    """
    folder = Path(tempfile.mkdtemp(prefix="kraftwatch-bundle-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        with os_errors(f"cannot unpack {file}"), tarfile.open(file) as packed:
            members = packed.getmembers()
            if (
                MANIFEST not in {member.name for member in members}
                or sum(member.size for member in members) > _LARGEST_BYTES
            ):
                raise UsageError(f"{file} is not a bundle: `kraftwatch bundle` writes one")
            packed.extractall(folder, members=members, filter="data")
    except (tarfile.TarError, EOFError, ValueError):
        raise UsageError(f"{file} is not a bundle, or it is damaged: `kraftwatch bundle` writes one") from None
    return folder


def bundled_config(file: Path) -> dict[str, Any] | None:
    """Returns the configuration in a bundle, as `kraftwatch bundle --config` wrote it; None if it holds none.

    Raises UsageError if the file is not a bundle, or it is damaged.
    """
    try:
        with os_errors(f"cannot read {file}"):
            manifest = parse_json((unpacked_bundle(file) / MANIFEST).read_bytes())
    except ValueError:
        manifest = None
    if not isinstance(manifest, dict):
        raise UsageError(f"{file}: {MANIFEST} in it is damaged: `kraftwatch bundle` writes one")
    config = manifest.get("config")
    return config if isinstance(config, dict) else None
