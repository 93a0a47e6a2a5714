"""A copy of one replica's metadata log, made before a rescue writes into its directory, and how it is restored.

The copy is beside the log directory (or where the operator wants it): Kafka refuses unknown folders inside of it. It is
complete or absent: it gets its name when everything is on the disk. `rescue.json` names the snapshot that was written.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from connectors.errors import UsageError, os_errors
from connectors.store.durable_file import replace_file, sync_path

MANIFEST: Final = "rescue.json"
_INCOMPLETE: Final = ".incomplete"
_IGNORED_SUFFIXES: Final = (".part", ".deleted", ".new")
"""Files that Kafka removes when it starts, and our own temporary ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupManifest:
    """What a backup is of, and what was about to be written."""

    partition: str
    """The partition's folder, absolute: the rescue may be undone from another working directory."""
    snapshot: str
    """File name of the snapshot that the rescue writes."""
    snapshot_sha256: str
    files: Mapping[str, str]
    """SHA-256 of each file of the partition's folder before the rescue, by name."""


_MANIFEST = TypeAdapter(BackupManifest)


def default_backup(partition: Path, snapshot: str) -> Path:
    """Returns the folder beside the log directory for the backup before this snapshot is written."""
    log_dir = partition.parent
    return log_dir.with_name(f"{log_dir.name}.before-{snapshot.removesuffix('.checkpoint')}")


def make_backup(partition: Path, backup: Path, snapshot: str, content: bytes) -> None:
    """Copies the partition's folder. A complete backup of the same files is kept.

    Args:
        partition: the folder of the metadata log; nothing writes to it meanwhile.
        snapshot: file name of the snapshot that will be written.

    Raises:
        UsageError: the folder cannot be written, or holds the backup of something else.
    """
    manifest = BackupManifest(
        partition=str(partition.resolve()),
        snapshot=snapshot,
        snapshot_sha256=hashlib.sha256(content).hexdigest(),
        files=_digests(partition),
    )
    with os_errors(f"cannot write the backup {backup}", "; choose another place with --backup"):
        if backup.exists():
            if read_manifest(backup) != manifest:
                raise UsageError(f"{backup} holds a backup of another state: move it away, or choose another --backup")
            return
        incomplete = backup.with_name(backup.name + _INCOMPLETE)
        if incomplete.exists():
            shutil.rmtree(incomplete)
        incomplete.mkdir(mode=0o700)
        for name in manifest.files:
            shutil.copy2(partition / name, incomplete / name)
            sync_path(incomplete / name)
        replace_file(incomplete / MANIFEST, _MANIFEST.dump_json(manifest, indent=1) + b"\n")
        incomplete.rename(backup)
        sync_path(backup.parent)


def read_manifest(backup: Path) -> BackupManifest:
    """Reads what a backup is of.

    Raises:
        UsageError: the folder is no backup of a rescue.
    """
    try:
        return _MANIFEST.validate_json((backup / MANIFEST).read_bytes())
    except (OSError, ValueError):
        raise UsageError(f"{backup} is not a backup that `kraftwatch rescue apply` made") from None


def find_backup(partition: Path) -> Path | None:
    """Returns the newest backup beside the log directory; None if there is none."""
    log_dir = partition.parent
    found = [path for path in log_dir.parent.glob(f"{log_dir.name}.before-*") if (path / MANIFEST).is_file()]
    return max(found, default=None, key=lambda path: path.name)


def restore_backup(partition: Path, backup: Path) -> bool:
    """Puts the partition's folder back to what it was before the rescue; returns whether anything changed.

    Raises:
        UsageError: the backup is of another folder, or the folder has changed since: the node was started.
    """
    manifest = read_manifest(backup)
    if manifest.partition != str(partition.resolve()):
        raise UsageError(f"{backup} is the backup of {manifest.partition}, not of {partition}")
    before, now = dict(manifest.files), _digests(partition)
    if now == before:
        return False
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    if changed != {manifest.snapshot} or now.get(manifest.snapshot) != manifest.snapshot_sha256:
        names = ", ".join(sorted(changed - {manifest.snapshot}) or changed)
        raise UsageError(
            f"{partition} has changed since the rescue ({names}): the node was started, so nothing is undone; "
            f"the files before the rescue are in {backup}"
        )
    written = partition / manifest.snapshot
    if manifest.snapshot in before:
        publish_part(write_part(written, (backup / manifest.snapshot).read_bytes()))
    else:
        written.unlink()
        sync_path(partition)
    return True


def write_part(path: Path, content: bytes) -> Path:
    """Writes a snapshot under its temporary name, durably, for the owner of the folder's other files alone.

    As Kafka's own snapshots: it may hold credentials. Kafka removes a file of that name when it starts.

    Returns:
        The temporary file; `publish_part` gives it its name.

    Raises:
        OSError: it cannot be written.
    """
    like = next((one.stat() for one in sorted(path.parent.glob("*.log"))), path.parent.stat())
    temporary = path.with_name(path.name + ".part")
    replace_file(temporary, content)
    if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
        os.chown(temporary, like.st_uid, like.st_gid)
    return temporary


def publish_part(part: Path) -> None:
    """Gives a temporary file its name, atomically and durably; a file of this name is replaced.

    Raises:
        OSError: it cannot be renamed; nothing has changed.
    """
    part.replace(part.with_name(part.name.removesuffix(".part")))
    sync_path(part.parent)


def _digests(partition: Path) -> dict[str, str]:
    return {
        entry.name: _digest(entry)
        for entry in sorted(partition.iterdir())
        if entry.is_file() and not entry.name.endswith(_IGNORED_SUFFIXES)
    }


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
