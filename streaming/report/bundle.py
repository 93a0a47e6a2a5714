"""Makes a bundle: what a job recorded, in one file for a colleague. Nothing in it is secret.

The journal holds no credential: records are redacted before they are written. The configuration is reduced to what
explains the alerts: clusters, thresholds, and the kinds and names of sinks.
"""

import io
import json
import os
import platform
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import BinaryIO, Final

from connectors.errors import UsageError
from connectors.store import sqlite_file
from connectors.store.bundle_file import MANIFEST
from connectors.store.journal_file import journal_file
from connectors.store.journal_reader import JournalReader
from connectors.store.tables import sqlite_database
from rules.finding import Plain
from streaming.config import Config
from streaming.pipeline.checkpoint import Checkpoint

_PACKAGES: Final = ("kraftwatch", "pyspark", "confluent-kafka", "kafka-python", "numpy", "pyarrow")
_EXPLAINING: Final = {"name", "bootstrap", "cluster_id", "vantage", "metadata_log", "thresholds", "rules"}
"""The keys of a cluster's section that explain its alerts."""
_COMPRESSION: Final = 6
"""The highest one takes five times as long, for 2 % less."""
_FILES: Final = ("cluster.json", "log/gather-stats.json")


def make_bundle(checkpoint: Checkpoint, config: Config | None, status: Sequence[Plain], output: Path) -> None:
    """Writes the bundle; a running job is not disturbed.

    Args:
        status: the status of each cluster as `status --json` prints it.
        output: the file to write, which must not exist.

    Raises:
        UsageError: there is no journal, the output exists, or a file cannot be read or written.
    """
    reader = JournalReader(checkpoint.journal.absolute())
    if not reader.created:
        raise UsageError(f"--checkpoint {checkpoint.folder}: no journal is there; give the folder of `kraftwatch run`")
    manifest: dict[str, Plain] = {"versions": {**_versions()}, "status": [*status]}
    if config is not None:
        manifest["config"] = config_without_secrets(config)
        sections = [sink.section for sink in config.sinks]
        manifest["sinks"] = [{"kind": section.kind, "min_severity": section.min_severity.value} for section in sections]
    with _new_file(output) as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=_COMPRESSION) as packed:
        _add(packed, MANIFEST, json.dumps(manifest, indent=1).encode())
        for name in _FILES:
            if (path := checkpoint.folder / name).is_file():
                _add(packed, name, path.read_bytes())
        for path in (journal_file(checkpoint.journal), sqlite_database(checkpoint.folder).path):
            if path.is_file():
                _add_database(packed, path, checkpoint)


@contextmanager
def _new_file(output: Path) -> Iterator[BinaryIO]:
    """Yields a new file, which is deleted if what is inside fails.

    It is never an existing file, nor what a link leads to: the user may be root, and others may write to the folder.

    Raises:
        UsageError: the file exists, or a file cannot be read or written.
    """
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"--output {output} exists: name another file") from None
    except OSError as problem:
        raise _unwritable(output, problem) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
    except BaseException as problem:
        output.unlink(missing_ok=True)
        if isinstance(problem, OSError):
            raise _unwritable(output, problem) from None
        raise


def _unwritable(output: Path, problem: OSError) -> UsageError:
    named = problem.filename or output
    return UsageError(f"cannot write the bundle {output}: {named}: {(problem.strerror or '').lower()}")


def config_without_secrets(config: Config) -> dict[str, Plain]:
    """Returns what of a configuration explains the alerts, as data that `streaming.config.checked` accepts.

    It has no path of a secret and no address of a sink.
    """
    return {
        "clusters": [
            cluster.model_dump(mode="json", include=_EXPLAINING, exclude_unset=True) for cluster in config.clusters
        ],
        "watch": [cluster.name for cluster in config.watched],
        "thresholds": {rule: {**values} for rule, values in config.thresholds.items()},
        "rules": {rule: section.model_dump(mode="json", exclude_unset=True) for rule, section in config.rules.items()},
    }


def _add(packed: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o600
    packed.addfile(member, io.BytesIO(content))


def _add_database(packed: tarfile.TarFile, path: Path, checkpoint: Checkpoint) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Not the file itself: a running job may have written the newest pages to another file beside it.
        copy = Path(folder) / path.name
        sqlite_file.copy(path, copy)
        member = packed.gettarinfo(copy, str(path.relative_to(checkpoint.folder)))
        member.mode = 0o600
        with copy.open("rb") as file:
            packed.addfile(member, file)


def _versions() -> Mapping[str, str]:
    found = {"python": platform.python_version(), "system": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
