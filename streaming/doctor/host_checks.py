"""This machine and what the job writes and tells: Python, Java, Spark, the checkpoint's disk, the sinks."""

import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from connectors.errors import UsageError
from rules.formatting import counted
from streaming.config import Config
from streaming.config.file_checks import unreadable
from streaming.doctor.check_result import Check, Verdict
from streaming.doctor.sink_check import tried
from streaming.pipeline.checkpoint import Checkpoint

JAVA = 17
"""Spark 4's least."""
FEW_BYTES, LITTLE_BYTES = 1 << 30, 5 << 30
"""Of free disk: the journal keeps some gigabytes, and a full disk stops the job."""
DESCRIPTORS = 1024
MACHINE, TELLING = "machine", "telling"


def machine_checks(config: Config) -> Iterator[Check]:
    """Whether the job can run here."""
    yield _check("python", "version", Verdict.OK, f"{platform.python_version()} at {sys.executable}")
    yield _java()
    yield _spark()
    yield _descriptors(len(config.watched))
    yield from _checkpoint(config.checkpoint.absolute())


def recorded_ids(config: Config) -> Mapping[str, str]:
    """The cluster ids that the checkpoint remembers, as far as it can be read."""
    try:
        return Checkpoint(folder=config.checkpoint).cluster_ids()
    except UsageError:
        return {}


def telling_checks(config: Config) -> Iterator[Check]:
    """Whether the files that sinks need can be read, and each sink opened; nothing is sent."""
    for sentence in unreadable(config):
        subject, _, said = sentence.partition(": ")
        yield Check(of=TELLING, subject=subject, name="file", verdict=Verdict.FAILS, said=said)
    with tempfile.TemporaryDirectory(prefix="kraftwatch-doctor-") as folder:
        for wanted in config.wanted():
            one = tried(wanted, memory=Path(folder), send_test=False)
            verdict = Verdict.OK if one.problem is None else Verdict.FAILS
            said = one.problem or "can be opened; `kraftwatch config check --send-test` tries it"
            yield Check(of=TELLING, subject=one.name, name="sink", verdict=verdict, said=said)


def _check(subject: str, name: str, verdict: Verdict, said: str, *mend: str) -> Check:
    return Check(of=MACHINE, subject=subject, name=name, verdict=verdict, said=said, mend=mend)


def _java() -> Check:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    mend = f"install a JDK {JAVA} or newer, and let JAVA_HOME name it"
    if java is None:
        return _check("java", "version", Verdict.FAILS, "there is no java on the PATH", mend)
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return _check("java", "version", Verdict.FAILS, f"{java} does not run", mend)
    found = re.search(r'version "([^"]+)"', said)
    number = found[1] if found else "of unknown version"
    major = re.match(r"(?:1\.)?(\d+)", number)
    if major is None or int(major[1]) < JAVA:
        return _check("java", "version", Verdict.FAILS, f"{number} at {java}: Spark needs {JAVA}", mend)
    return _check("java", "version", Verdict.OK, f"{number} at {java}")


def _spark() -> Check:
    try:
        return _check("spark", "version", Verdict.OK, f"pyspark {version('pyspark')}")
    except PackageNotFoundError:
        mend = "install kraftwatch with its locked dependencies"
        return _check("spark", "version", Verdict.FAILS, "pyspark is not installed", mend)


def _descriptors(clusters: int) -> Check:
    """The gatherer raises its own limit to the hard one: about a dozen connections a cluster."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = max(DESCRIPTORS, 32 * clusters)
    if most in (resource.RLIM_INFINITY, -1) or most >= needed:
        return _check("descriptors", "limit", Verdict.OK, "as many files and connections may be open as are needed")
    said = f"{most} files may be open at once, {counted(clusters, 'cluster')} may need {needed}"
    return _check("descriptors", "limit", Verdict.WARNING, said, "raise the hard limit (ulimit -Hn, LimitNOFILE=)")


def _checkpoint(folder: Path) -> Iterator[Check]:
    subject, there = str(folder), next(each for each in (folder, *folder.parents) if each.exists())
    if not os.access(there, os.W_OK | os.X_OK) or not there.is_dir():
        said = f"{there} cannot be written by this user"
        yield _check(subject, "checkpoint", Verdict.FAILS, said, "run as the job's user, or give another --checkpoint")
        return
    checkpoint = Checkpoint(folder=folder)
    if folder.exists():
        try:
            checkpoint.cluster_ids()
            checkpoint.check_journal()
        except UsageError as problem:
            yield _check(subject, "checkpoint", Verdict.FAILS, str(problem))
            return
    known = ", ".join(checkpoint.cluster_ids()) if folder.exists() else ""
    yield _check(subject, "checkpoint", Verdict.OK, f"remembers {known}" if known else "is new")
    free = shutil.disk_usage(there).free
    verdict = Verdict.FAILS if free < FEW_BYTES else Verdict.WARNING if free < LITTLE_BYTES else Verdict.OK
    mend = (
        () if verdict is Verdict.OK else ("make room: the journal keeps some gigabytes, and a full disk stops the job",)
    )
    yield _check(subject, "disk", verdict, f"{free / (1 << 30):.1f} GiB are free", *mend)
