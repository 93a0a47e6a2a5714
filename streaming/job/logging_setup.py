"""Logging of the driver: warnings of kraftwatch to the terminal, everything to files of bounded size."""

import contextlib
import logging
import shutil
import sys
import threading
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path

from connectors.sinks.evidence_format import visible

BYTES_MAX = 5_000_000
"""Size in bytes at which a log is rotated; one or two older files are kept beside it."""
_INTERVAL_S = 60.0
_CHILD_LOGS = ("spark.err", "gather.log")
"""stderr of Java, of Spark's Python workers and of the gatherer: each process writes through its own descriptor."""

PACKAGES = ("streaming", "connectors", "rules")


def log_to(folder: Path) -> None:
    """Sends every library's log records to `driver.log` in `folder`, and kraftwatch's own warnings to stderr as well.

    Records of other libraries stay off the terminal: a library that loses its connection during shutdown would
    otherwise write between the alerts. A record that cannot be written, as on a full disk, is left out.
    """
    # Otherwise logging prints a traceback to stderr for each such record.
    logging.raiseExceptions = False
    folder.mkdir(parents=True, exist_ok=True)
    file = RotatingFileHandler(folder / "driver.log", maxBytes=BYTES_MAX, backupCount=2, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.root.addHandler(file)
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.WARNING)
    terminal.setFormatter(_TerminalFormatter("kraftwatch: %(message)s"))
    for name in PACKAGES:
        logging.getLogger(name).addHandler(terminal)


class _TerminalFormatter(logging.Formatter):
    """Prints messages as data: they quote what nodes have sent."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record), keep="\n")


@contextlib.contextmanager
def rotated_child_logs(folder: Path, *, bytes_max: int = BYTES_MAX, every_s: float = _INTERVAL_S) -> Iterator[None]:
    """Rotates, while entered, the logs that child processes write through their stderr.

    Those processes keep the file open, so it cannot be renamed: its content is copied to `NAME.1` and the file is
    truncated. The processes append, so they continue at its beginning.

    Args:
        folder: where the logs are.
        bytes_max: size in bytes from which a log is rotated.
        every_s: seconds between two checks of the sizes.
    """
    stopping = threading.Event()

    def run() -> None:
        while not stopping.wait(every_s):
            for name in _CHILD_LOGS:
                with contextlib.suppress(OSError):
                    _rotate(folder / name, bytes_max)

    thread = threading.Thread(target=run, name="child log rotation", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def _rotate(file: Path, bytes_max: int) -> None:
    if not file.exists() or file.stat().st_size < bytes_max:
        return
    shutil.copyfile(file, file.with_name(file.name + ".1"))
    with file.open("r+b") as text:
        text.truncate(0)
