"""A copy of one replica's metadata log, made before a rescue writes into its directory, and how it is restored.

The copy is beside the log directory (or where the operator wants it): Kafka refuses unknown folders inside of it. It is
complete or absent: it gets its name when everything is on the disk. `rescue.json` names the snapshot that was written.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from connectors.errors import UsageError, os_errors
from connectors.logdir.log_dir_files import file_names, open_regular_file
from connectors.logdir.stopped_node import StoppedNode
from connectors.store.durable_file import FOLDER_MODE, create_file, lock, sync_path, write_all, write_file

MANIFEST: Final = "rescue.json"
_INCOMPLETE: Final = ".incomplete"
_IGNORED_SUFFIXES: Final = (".part", ".deleted", ".new")
"""Files that Kafka removes when it starts, and our own temporary ones."""
_CHUNK_BYTES: Final = 1024 * 1024


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


def default_backup(log_dir: Path, snapshot: str) -> Path:
    """Returns the folder beside the log directory for the backup before this snapshot is written."""
    return log_dir.with_name(f"{log_dir.name}.before-{snapshot.removesuffix('.checkpoint')}")


def make_backup(node: StoppedNode, backup: Path, snapshot: str, content: bytes) -> None:
    """Copies the partition's folder. A complete backup of the same files is kept.

    Args:
        snapshot: file name of the snapshot that will be written, with this content.

    Raises:
        UsageError: the folder cannot be written, or holds the backup of something else.
    """
    with os_errors(f"cannot write the backup {backup}", "; choose another place with --backup"):
        manifest = BackupManifest(
            partition=str(node.partition.resolve()),
            snapshot=snapshot,
            snapshot_sha256=hashlib.sha256(content).hexdigest(),
            files=_digests(node),
        )
        if not backup.exists():
            with _incomplete(backup) as folder:
                for name, digest in manifest.files.items():
                    _copy(node, name, digest, folder)
                write_file(MANIFEST, _MANIFEST.dump_json(manifest, indent=1) + b"\n", folder=folder)
                os.fsync(folder)
        elif read_manifest(backup) != manifest:
            raise UsageError(f"{backup} holds a backup of another state: move it away, or choose another --backup")
        # Also of a backup that an earlier call, which was killed, has just given its name.
        sync_path(backup.parent)


@contextmanager
def _incomplete(backup: Path) -> Iterator[int]:
    """Yields the descriptor of an empty folder, which gets the name of the backup afterwards, or is removed."""
    temporary = backup.with_name(backup.name + _INCOMPLETE)
    with suppress(FileExistsError):
        temporary.mkdir(mode=FOLDER_MODE)
    folder = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if not lock(folder) or not os.path.samestat(os.fstat(folder), temporary.stat()):
            raise UsageError(f"another rescue writes the backup {backup}: wait for it, or choose another --backup")
        try:
            # A rescue that was killed may have left files.
            _empty(folder)
            yield folder
            temporary.rename(backup)
        except BaseException:
            with suppress(OSError):
                _empty(folder)
                temporary.rmdir()
            raise
    finally:
        os.close(folder)


def _empty(folder: int) -> None:
    for name in file_names(folder):
        os.unlink(name, dir_fd=folder)


def _copy(node: StoppedNode, name: str, digest: str, folder: int) -> None:
    copied = hashlib.sha256()
    with open_regular_file(name, folder=node.folder) as source:
        target = create_file(name, folder=folder)
        try:
            while chunk := source.read(_CHUNK_BYTES):
                copied.update(chunk)
                write_all(target, chunk)
            modified = os.fstat(source.fileno()).st_mtime_ns
            os.utime(target, ns=(modified, modified))
            os.fsync(target)
        finally:
            os.close(target)
    if copied.hexdigest() != digest:
        raise UsageError(f"{node.partition / name} changed while it was copied: nothing was changed; try again")


def read_manifest(backup: Path) -> BackupManifest:
    """Reads what a backup is of.

    Raises:
        UsageError: the folder is no backup of a rescue.
    """
    try:
        return _MANIFEST.validate_json((backup / MANIFEST).read_bytes())
    except (OSError, ValueError):
        raise UsageError(f"{backup} is not a backup that `kraftwatch rescue apply` made") from None


def find_backup(log_dir: Path) -> Path | None:
    """Returns the newest backup beside the log directory; None if there is none. Raises OSError."""
    begin = f"{log_dir.name}.before-"
    # Not a glob: the name of the log directory may hold `[`.
    found = [path for path in log_dir.parent.iterdir() if path.name.startswith(begin) and (path / MANIFEST).is_file()]
    return max(found, default=None, key=lambda path: path.name)


def restore_backup(node: StoppedNode, backup: Path) -> bool:
    """Puts the partition's folder back to what it was before the rescue; returns whether anything changed.

    `StoppedNode.sync` then makes the change durable.

    Raises:
        UsageError: the backup is of another folder or damaged, or the folder has changed since: the node was started.
        OSError: the folder cannot be read or written; it has not changed.
    """
    manifest, partition = read_manifest(backup), node.partition
    if manifest.partition != str(partition.resolve()):
        raise UsageError(f"{backup} is the backup of {manifest.partition}, not of {partition}")
    before, now = dict(manifest.files), _digests(node)
    if now == before:
        return False
    changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    if changed != {manifest.snapshot} or now.get(manifest.snapshot) != manifest.snapshot_sha256:
        names = ", ".join(sorted(changed - {manifest.snapshot}) or changed)
        raise UsageError(
            f"{partition} has changed since the rescue ({names}): the node was started, so nothing is undone; "
            f"the files before the rescue are in {backup}"
        )
    if manifest.snapshot not in before:
        node.remove(manifest.snapshot)
        return True
    content = (backup / manifest.snapshot).read_bytes()
    if hashlib.sha256(content).hexdigest() != before[manifest.snapshot]:
        raise UsageError(f"{backup / manifest.snapshot} is not the file that was copied: nothing was changed")
    node.publish(node.write_part(manifest.snapshot, content))
    return True


def _digests(node: StoppedNode) -> dict[str, str]:
    return {
        name: _digest(node, name)
        for name in file_names(node.folder)
        if not name.endswith(_IGNORED_SUFFIXES) and _is_file(node, name)
    }


def _is_file(node: StoppedNode, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=node.folder).st_mode)
    except FileNotFoundError:
        return False


def _digest(node: StoppedNode, name: str) -> str:
    with open_regular_file(name, folder=node.folder) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
