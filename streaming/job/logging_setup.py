"""Logging of the driver: warnings of kraftwatch to the terminal, everything to files of bounded size."""

import contextlib
import logging
import os
import shutil
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from connectors.process.json_log import LogFormat, json_formatter
from rules.formatting import visible

BYTES_MAX = 5_000_000
"""Size in bytes at which a log is rotated; one or two older files are kept beside it."""
_CHILD_LOGS = ("spark.err", "gather.log")
"""stderr of Java, of Spark's Python workers and of the gatherer: each process writes through its own descriptor."""

PACKAGES = ("streaming", "connectors", "rules")


def log_to(folder: Path, log_format: LogFormat = "text") -> None:
    """Sends every library's log records to `driver.log` in `folder`, and kraftwatch's own warnings to stderr as well.

    Records of other libraries stay off the terminal: a library that loses its connection during shutdown would
    otherwise write between the alerts. A record that cannot be written, as on a full disk, is left out.
    """
    # Otherwise logging prints a traceback to stderr for each such record.
    logging.raiseExceptions = False
    folder.mkdir(parents=True, exist_ok=True)
    file = RotatingFileHandler(folder / "driver.log", maxBytes=BYTES_MAX, backupCount=2, encoding="utf-8")
    as_json = json_formatter() if log_format == "json" else None
    file.setFormatter(as_json or _VisibleFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.root.addHandler(file)
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.WARNING)
    terminal.setFormatter(as_json or _VisibleFormatter("kraftwatch: %(message)s"))
    for name in PACKAGES:
        logging.getLogger(name).addHandler(terminal)


class _VisibleFormatter(logging.Formatter):
    """Writes a message on one line, and nothing in it controls a terminal: it may quote what a node has sent."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return visible(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        # A traceback has several lines.
        return visible(super().format(record), keep="\n")


def rotate_child_logs(folder: Path) -> None:
    """Rotates the logs that child processes write through their stderr, if they are too large; to be called in a loop.

    Those processes keep the file open, so it cannot be renamed: its content is copied to `NAME.1` and the file is
    truncated. The processes append, so they continue at its beginning.
    """
    for name in _CHILD_LOGS:
        file = folder / name
        with contextlib.suppress(OSError):
            if file.stat().st_size >= BYTES_MAX:
                shutil.copyfile(file, file.with_name(file.name + ".1"))
                os.truncate(file, 0)
