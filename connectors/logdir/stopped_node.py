"""The log directory of one stopped node, opened to be changed: found through links, of the right user, and locked.

Everything is written through a descriptor of the partition's folder: a link that is swapped meanwhile leads no write to
another folder. No file is given to another user.
"""

import errno
import fcntl
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from pwd import getpwuid
from typing import Final

from connectors.errors import UsageError, os_errors
from connectors.logdir.log_dir_files import META_PROPERTIES, file_names, find_partition, is_log_file
from connectors.store.durable_file import private_files, write_file

LOCK_FILE: Final = ".lock"
_PART: Final = ".part"
"""The suffix of a snapshot that is being written. Kafka deletes such a file when it starts (`Snapshots.parse`)."""
_MOST_LINKS: Final = 40
_LOCKED: Final = (errno.EAGAIN, errno.EACCES)
_DENIED: Final = (errno.EACCES, errno.EPERM)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedNode:
    """One stopped node."""

    partition: Path
    """The partition's folder in its log directory; a path with a link in it is resolved up to that folder."""
    folder: int
    """A descriptor of the partition's folder."""

    @property
    def log_dir(self) -> Path:
        """The log directory, which has the lock."""
        return self.partition.parent

    def require_unmoved(self) -> None:
        """Returns if the path still leads to the folder that is open.

        Raises:
            UsageError: the folder was replaced by another one.
        """
        with os_errors(f"cannot read {self.partition}"):
            same = os.path.samestat(self.partition.stat(), os.fstat(self.folder))
        if not same:
            raise UsageError(f"{self.partition} was replaced by another folder while it was read: nothing was changed")

    def write_part(self, name: str, content: bytes) -> str:
        """Writes a snapshot durably under a temporary name; returns this name. Raises OSError if it cannot be written.

        As with Kafka's own snapshots, the owner alone can read it: it may hold credentials.
        """
        part = name + _PART
        try:
            write_file(part, content, folder=self.folder)
        except BaseException:
            with suppress(OSError):
                self.remove(part)
            raise
        return part

    def publish(self, part: str) -> None:
        """Gives a temporary file its name, atomically; a file of this name is replaced. `sync` makes it durable.

        Raises:
            OSError: it cannot be renamed; nothing has changed.
        """
        os.rename(part, part.removesuffix(_PART), src_dir_fd=self.folder, dst_dir_fd=self.folder)

    def remove(self, name: str) -> None:
        """Removes a file, if it exists. Raises OSError if it cannot be removed."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.folder)

    def sync(self) -> None:
        """Makes new, renamed and removed names durable. Raises OSError if the disk does not confirm it."""
        os.fsync(self.folder)


@contextmanager
def stopped_node(folder: Path, *, write: bool, command: Sequence[str]) -> Iterator[StoppedNode]:
    """Opens a node's log directory and holds its lock, as a running Kafka does: until then, Kafka cannot start.

    Args:
        folder: the node's metadata.log.dir (or the first of its log.dirs), or the partition's folder in it.
        write: create a lock file that is missing, and exclude other readers. All files that are created belong to the
            user alone, whatever the umask. Without it, nothing is written.
        command: the words of the user's command, for the sentence that says which user must run it.

    Raises:
        UsageError: the folder is no log directory or belongs to another user, or a Kafka process uses it.
    """
    found = find_partition(folder)
    locations = _locations(found)
    with os_errors(f"cannot read {found}"):
        within = next(
            (location for location in reversed(locations) if (location.parent / META_PROPERTIES).is_file()), None
        )
    if within is None:
        raise UsageError(
            f"no {META_PROPERTIES} is in {locations[0].parent}: name the node's log directory, which has it, and the "
            "lock of a running Kafka"
        )
    linked = len(locations) > 1 or locations[0] != found.absolute()
    with ExitStack() as stack:
        with os_errors(f"cannot open {within}"):
            descriptor = os.open(locations[-1], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        stack.callback(os.close, descriptor)
        node = StoppedNode(partition=within if linked else found, folder=descriptor)
        _require_user(node, command)
        if write:
            stack.enter_context(private_files())
        for log_dir in {location.parent: None for location in locations}:
            _hold_lock(log_dir, stack, write=write)
        node.require_unmoved()
        yield node


def _locations(partition: Path) -> list[Path]:
    """Returns each path by which links lead to the folder, from the given one to the folder's own.

    A running Kafka holds the lock of the log directory by which it reached the folder: any of them.
    """
    found: list[Path] = []
    path = partition
    with os_errors(f"cannot read {partition}"):
        while len(found) < _MOST_LINKS:
            path = path.parent.resolve() / path.name
            found.append(path)
            if not path.is_symlink():
                return found
            path = path.parent / path.readlink()
    raise UsageError(f"{partition} is a link that leads in a circle")


def _require_user(node: StoppedNode, command: Sequence[str]) -> None:
    """Returns if this process runs as the user whose Kafka wrote the log.

    Root could write for every user, but Kafka could not open a file of root's, and a folder of another user may change
    at any time.
    """
    me = os.geteuid()
    with os_errors(f"cannot read {node.partition}"):
        segments = [name for name in file_names(node.folder) if is_log_file(name) and name.endswith(".log")]
        owners = [os.stat(name, dir_fd=node.folder).st_uid for name in (max(segments, default="."), ".")]
    other = next((owner for owner in (owners if me == 0 else owners[:1]) if owner != me), None)
    if other is not None:
        again = shlex.join(["sudo", "-u", _user(other, "#"), *command])
        raise UsageError(
            f"{node.partition} belongs to {_user(other)}, and this command runs as {_user(me)}: run it as that user: "
            f"{again}"
        )


def _user(number: int, prefix: str = "user ") -> str:
    try:
        return getpwuid(number).pw_name
    except KeyError:
        return f"{prefix}{number}"


def _hold_lock(log_dir: Path, stack: ExitStack, *, write: bool) -> None:
    path = log_dir / LOCK_FILE
    try:
        descriptor = _open_lock(path, write=write)
    except OSError as problem:
        advice = "; run this as the user that Kafka runs as" if problem.errno in _DENIED else ""
        raise UsageError(f"cannot open {path}: {(problem.strerror or 'unusable').lower()}{advice}") from None
    if descriptor is None:
        return
    stack.callback(os.close, descriptor)
    try:
        # Java's FileChannel.tryLock takes the same POSIX lock; a reader's lock is refused too while Kafka holds it.
        fcntl.lockf(descriptor, (fcntl.LOCK_EX if write else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except OSError as problem:
        if problem.errno in _LOCKED:
            raise UsageError(
                f"{log_dir} is locked: a Kafka process uses it, or another rescue (lock file {path}); stop this node "
                "first"
            ) from None
        raise UsageError(f"cannot lock {path}: {(problem.strerror or 'unusable').lower()}") from None


def _open_lock(path: Path, *, write: bool) -> int | None:
    """Opens a lock file; None if it is missing and is not to be created: then nobody holds a lock."""
    flags = (os.O_RDWR if write else os.O_RDONLY) | os.O_NONBLOCK
    with suppress(FileNotFoundError):
        return os.open(path, flags)
    if not (write and (path.parent / META_PROPERTIES).is_file()):
        return None
    with suppress(FileExistsError):
        return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    return os.open(path, flags)
