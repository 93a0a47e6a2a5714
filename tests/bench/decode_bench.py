"""Decoding and replay of large files against Kafka's tools: a million partitions, and a log of a million records.

All figures are CPU seconds of whole processes, the start of Python or Java included. Each run measures a command and
its peer one after the other; ratios are medians over the runs.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from connectors.metadata.batches import RecordBatch, scan
from deploy.lab.jars import KAFKA_VERSION, kafka_jars
from tests.kafka.large_quorum import write_snapshot
from tests.kafka.metadata_image import write_history

RUNS = 3
_SOURCE = Path(__file__).with_name("ImageReplay.java")
_VOTERS = "1@localhost:9093:AAAAAAAAAAAAAAAAAAAAAw"
_UNKNOWN = 3
"""Exit code of `kraftwatch status`: the files of one disk do not show the cluster's health."""
_POLL_S = 0.02
_SCRIPT_OPTIONS = (
    *("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""The JVM options of Kafka's scripts."""
_DUMP_LOG, _IMAGE = "kafka-dump-log", "Kafka's image replay"


class Cost(NamedTuple):
    """What one run took."""

    cpu_s: float
    memory_mb: float
    """The largest resident memory."""


def figures() -> dict[str, dict[str, Any]]:
    """Returns, by what was measured: CPU seconds, the peer and its CPU seconds, their ratio, memory in MB."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-decode-") as name:
        folder = Path(name)
        jars = f"{kafka_jars(KAFKA_VERSION)}/*"
        subprocess.run(["javac", "-d", str(folder / "classes"), "-cp", jars, str(_SOURCE)], check=True)
        java = ["java", "-cp", f"{folder / 'classes'}:{jars}"]
        log, snapshot = (folder / kind / "__cluster_metadata-0" for kind in ("log", "snapshot"))
        for each in (log, snapshot):
            each.mkdir(parents=True)
        write_history(log / "00000000000000000000.log", seed=1, records=1_000_000)
        write_snapshot(snapshot, 100_000, 10, _VOTERS)
        files = [*log.glob("*.log"), *snapshot.glob("*.checkpoint")]
        return {what: row for file in files for what, row in _measured(java, file).items()}


def _measured(java: Sequence[str], file: Path) -> dict[str, dict[str, Any]]:
    records = sum(item.record_count for item in scan(file.read_bytes()) if isinstance(item, RecordBatch))
    kraftwatch = [sys.executable, "-m", "streaming"]
    dump = [*java[:1], *_SCRIPT_OPTIONS, *java[1:], "org.apache.kafka.tools.DumpLogSegments"]
    work: Mapping[str, Sequence[str]] = {
        _DUMP_LOG: [*dump, "--cluster-metadata-decoder", "--files", str(file)],
        "kraftwatch data decode": [*kraftwatch, "data", "decode", str(file)],
        "kraftwatch data decode --summary": [*kraftwatch, "data", "decode", "--summary", str(file)],
        _IMAGE: [*java, "ImageReplay", str(file)],
        "kraftwatch status --log-dir": [*kraftwatch, "status", "--log-dir", str(file.parent.parent)],
    }
    costs = [{what: cost_of(command) for what, command in work.items()} for _ in range(RUNS)]
    kind = "snapshot" if file.suffix == ".checkpoint" else "log"
    peers = {what: _IMAGE if "--" in what else _DUMP_LOG for what in work if what.startswith("kraftwatch")}
    return {
        f"{kind} of {records / 1e6:.2f} M records: `{what}`": _row(costs, what, peer) for what, peer in peers.items()
    }


def _row(costs: Sequence[Mapping[str, Cost]], what: str, peer: str) -> dict[str, Any]:
    return {
        "CPU s": round(median(run[what].cpu_s for run in costs), 2),
        "peer": peer,
        "peer, CPU s": round(median(run[peer].cpu_s for run in costs), 2),
        "ratio": round(median(run[what].cpu_s / run[peer].cpu_s for run in costs), 3),
        "MB": round(max(run[what].memory_mb for run in costs)),
        "peer, MB": round(max(run[peer].memory_mb for run in costs)),
    }


def cost_of(arguments: Sequence[str]) -> Cost:
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
