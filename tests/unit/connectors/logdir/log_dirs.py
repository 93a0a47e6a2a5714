"""Log directories for tests: those of a real, stopped quorum, and directories written by hand."""

import json
import tarfile
from collections.abc import Iterable
from pathlib import Path

from connectors.logdir.log_dir_files import PARTITION
from tests.unit.connectors.metadata.metadata_bytes import batch, control, noop

STOPPED = Path(__file__).parents[3] / "data" / "logdir" / "stopped-quorum.tar.xz"
MOVED = ",".join(
    f"{node}@c{node}.new:9093:{directory}"
    for node, directory in enumerate(("AaorEeDFTeqhbYUKWjaZFw", "wPvHPGZoRSmdGaO9smPpMQ", "Q6ZWoxLOS3O_aT7VKTK-sg"), 1)
)
"""Its voters with other endpoints, as `--initial-controllers` takes them."""
AT = 1_790_000_000_000
"""The timestamp of offset 0; each record is one second later than the one before."""


def stopped_quorum(folder: Path) -> Path:
    """The directories node-1, node-2, node-3 and node-101: see the README beside the file."""
    with tarfile.open(STOPPED) as packed:
        packed.extractall(folder, filter="data")
    return folder


def noops(first: int, count: int, *, epoch: int = 1) -> bytes:
    """Returns batches of one NoOpRecord each, from offset `first` on."""
    return b"".join(
        batch([noop()], base_offset=offset, epoch=epoch, timestamp=AT + 1_000 * offset)
        for offset in range(first, first + count)
    )


def leader_change(leader: int = 1, *, timestamp: int = AT) -> bytes:
    """Returns the first batch of a log: a LeaderChangeMessage at offset 0."""
    return batch([control(2, b"\0\0" + leader.to_bytes(4, "big") + b"\1\1\0")], timestamp=timestamp)


def write_log_dir(folder: Path, segments: dict[int, bytes], snapshots: Iterable[tuple[str, bytes]] = ()) -> Path:
    """Writes a log directory with these segments, by base offset, and snapshots, by name."""
    partition = folder / PARTITION
    partition.mkdir(parents=True)
    for base_offset, content in segments.items():
        (partition / f"{base_offset:020d}.log").write_bytes(content)
    for name, content in snapshots:
        (partition / name).write_bytes(content)
    return folder


def write_quorum_state(folder: Path, **content: object) -> None:
    (folder / PARTITION / "quorum-state").write_text(json.dumps(content))
