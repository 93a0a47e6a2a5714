"""Measures decoding and replay of large files against Kafka's tools: `python -m tests.bench.decode_bench [FILE ...]`.

Without a FILE, Kafka's classes write a snapshot of a million partitions and a log of a million records. Prints numbers
and asserts nothing.

All figures are CPU seconds. Those of commands and of Kafka's tools are of whole processes, the start of Python or Java
included; the first line of each file is measured in this process. Each run measures a command and its peer one after
the other; ratios are medians over the runs.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from connectors.decode_observation import decode_observation
from connectors.gather.redacted_batches import redacted_batches
from connectors.metadata.batches import RecordBatch, scan
from connectors.observation import Observation, ObservationKind
from deploy.lab.jars import KAFKA_VERSION, kafka_jars
from streaming.pipeline.python_worker import begin_task

PIECE = 1 << 20
"""The maximal size of one observation in bytes, unless a single batch is larger."""
RUNS = 3
_SOURCE = Path(__file__).with_name("MetadataFiles.java")
_PARTITION = "__cluster_metadata-0"
_UNKNOWN = 3
"""Exit code of `kraftwatch status`: the files of one disk do not show the cluster's health."""
_POLL_S = 0.02
_SCRIPT_OPTIONS = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""The JVM options of Kafka's scripts."""
_DUMP_LOG, _IMAGE = "kafka-dump-log", "Kafka's image replay"


class Cost(NamedTuple):
    """What one run took."""

    cpu_s: float
    memory_mb: float | None = None
    """The largest resident memory; None for work in this process."""


def main(names: Sequence[str]) -> int:
    """Prints the figures of these files, or of files that are written for it."""
    for what, row in figures(files=[Path(name) for name in names]).items():
        columns = "  ".join(f"{name.replace('_', ' ')} {value}" for name, value in row.items())
        sys.stdout.write(f"{what:58}  {columns}\n")
    return 0


def figures(*, runs: int = RUNS, files: Sequence[Path] = ()) -> dict[str, dict[str, Any]]:
    """Returns, by what was measured: CPU seconds, the peer and its CPU seconds, their ratio, memory in MB."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-decode-") as name:
        folder = Path(name)
        java = _compiled(folder / "classes")
        found: dict[str, dict[str, Any]] = {}
        for file in files or _written(java, folder):
            found |= _measured(java, file, runs)
        return found


def _measured(java: Sequence[str], file: Path, runs: int) -> dict[str, dict[str, Any]]:
    content = file.read_bytes()
    is_snapshot = file.suffix == ".checkpoint"
    records = sum(item.record_count for item in scan(content) if isinstance(item, RecordBatch))
    kind = ObservationKind.SNAPSHOT if is_snapshot else ObservationKind.RECORDS
    kraftwatch = [sys.executable, "-m", "streaming"]
    dump = [*java[:1], *_SCRIPT_OPTIONS, *java[1:], "org.apache.kafka.tools.DumpLogSegments"]
    with _log_dir(file) as log_dir:
        work: Mapping[str, Callable[[], Cost]] = {
            "redacted and decoded": lambda: _decoded(content, kind),
            _DUMP_LOG: lambda: _command([*dump, "--cluster-metadata-decoder", "--files", str(file)]),
            "kraftwatch decode": lambda: _command([*kraftwatch, "decode", str(file)]),
            "kraftwatch decode --summary": lambda: _command([*kraftwatch, "decode", "--summary", str(file)]),
            _IMAGE: lambda: _command([*java, "MetadataFiles", "image", str(file)]),
            "kraftwatch status --log-dir": lambda: _command([*kraftwatch, "status", "--log-dir", str(log_dir)]),
        }
        costs = [{what: measure() for what, measure in work.items()} for _ in range(runs)]
    shape = f"{'snapshot' if is_snapshot else 'log'} of {records / 1e6:.2f} M records"
    peers = {what: _IMAGE if "--" in what else _DUMP_LOG for what in work if what not in (_DUMP_LOG, _IMAGE)}
    return {f"{shape}: {what}": _row(costs, what, peer) for what, peer in peers.items()}


def _row(costs: Sequence[Mapping[str, Cost]], what: str, peer: str) -> dict[str, Any]:
    memory = max((run[what].memory_mb or 0 for run in costs), default=0)
    ratio = median(run[what].cpu_s / run[peer].cpu_s for run in costs)
    return {
        "cpu_s": round(median(run[what].cpu_s for run in costs), 2),
        "peer": peer,
        "peer_cpu_s": round(median(run[peer].cpu_s for run in costs), 2),
        "ratio": f"1/{1 / ratio:.1f}",
        "memory_mb": round(memory) if memory else "",
        "peer_memory_mb": round(max(run[peer].memory_mb or 0 for run in costs)),
    }


def _decoded(content: bytes, kind: ObservationKind) -> Cost:
    """Redacts and decodes a file as gatherer and step do, one observation after the other."""
    pieces = [*_pieces(content)]
    # As both processes do: they keep freed memory, and do not traverse imported modules in garbage collection.
    begin_task()
    before = time.process_time()
    for base, epoch, piece in pieces:
        redacted = redacted_batches(piece, kind=kind).content
        row = Observation(
            cluster="bench",
            kind=kind,
            sequence=base,
            observed_at_ms=0,
            base_offset=base,
            leader_epoch=epoch,
            payload=redacted,
        )
        decode_observation(row)
    return Cost(time.process_time() - before)


def _pieces(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yields pieces of whole batches, as observations hold them, each with offset and epoch of its first batch."""
    batches = [item for item in scan(content) if isinstance(item, RecordBatch)]
    first = batches[0]
    for batch in batches:
        if batch.end - first.position > PIECE and batch.position > first.position:
            yield first.base_offset, first.leader_epoch, content[first.position : batch.position]
            first = batch
    yield first.base_offset, first.leader_epoch, content[first.position : batches[-1].end]


def _command(arguments: Sequence[str]) -> Cost:
    """Runs a command to its end, its output discarded."""
    peak = 0.0
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            peak = max(peak, _peak_memory_mb(process.pid))
            time.sleep(_POLL_S)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, _UNKNOWN):
        raise RuntimeError(f"exit code {process.returncode}: {' '.join(arguments)}")
    return Cost(usage.ru_utime + usage.ru_stime, peak)


def _peak_memory_mb(pid: int) -> float:
    """Returns the largest resident memory of a process so far; its rusage begins with that of this process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


@contextmanager
def _log_dir(file: Path) -> Iterator[Path]:
    """Yields a log directory that holds the file alone."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-decode-") as name:
        partition = Path(name) / _PARTITION
        partition.mkdir()
        (partition / file.name).symlink_to(file.resolve())
        yield Path(name)


def _compiled(classes: Path) -> list[str]:
    """Compiles MetadataFiles.java; returns the command that starts Java with it."""
    jars = f"{kafka_jars(KAFKA_VERSION)}/*"
    subprocess.run(["javac", "-d", str(classes), "-cp", jars, str(_SOURCE)], check=True)
    return ["java", "-cp", f"{classes}:{jars}"]


def _written(java: Sequence[str], folder: Path) -> list[Path]:
    """Writes a snapshot of a million partitions, and a log of a million records."""
    for arguments in (["snapshot", str(folder), "100000", "10"], ["log", str(folder), "10000", "10", "900000"]):
        subprocess.run([*java, "MetadataFiles", *arguments], check=True, capture_output=True)
    return [*sorted(folder.glob("*.checkpoint")), *sorted(folder.glob("*.log"))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
