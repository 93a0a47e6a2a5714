"""Where words go: ours to the terminal, everybody else's to a file of bounded size."""

import contextlib
import logging
import shutil
import sys
import threading
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from pathlib import Path

BYTES_MAX = 5_000_000
"""A log never grows much beyond this; what was before is kept beside it, once or twice."""
_LOOK_S = 60.0
_INHERITED = ("spark.err", "gather.log")
"""What Java, Spark's Python workers and the gatherer say on stderr: each writes through a descriptor of its own."""

OURS = ("streaming", "connectors", "rules")


def direct(folder: Path) -> None:
    """Send every library's log to `driver.log` in `folder`, and our own warnings to stderr as well.

    A terminal is for alerts: a library that loses a connection while we stop has nothing to say there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = RotatingFileHandler(folder / "driver.log", maxBytes=BYTES_MAX, backupCount=2, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.root.addHandler(file)
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.WARNING)
    terminal.setFormatter(logging.Formatter("kraftwatch: %(message)s"))
    for name in OURS:
        logging.getLogger(name).addHandler(terminal)


@contextlib.contextmanager
def bounded(folder: Path, *, bytes_max: int = BYTES_MAX, every_s: float = _LOOK_S) -> Iterator[None]:
    """Keep the logs that other processes write through their stderr to a bounded size while entered.

    Those processes hold the file open, so it cannot be renamed away: its text is copied to `NAME.1` and the file cut
    to nothing. They append, and go on at its beginning.

    Args:
        folder: where the logs are.
        bytes_max: from this size on, one is cut.
        every_s: how often its size is looked at.
    """
    left = threading.Event()

    def watch() -> None:
        while not left.wait(every_s):
            for name in _INHERITED:
                with contextlib.suppress(OSError):
                    _cut(folder / name, bytes_max)

    keeper = threading.Thread(target=watch, name="logs' keeper", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        left.set()
        keeper.join()


def _cut(file: Path, bytes_max: int) -> None:
    if not file.exists() or file.stat().st_size < bytes_max:
        return
    shutil.copyfile(file, file.with_name(file.name + ".1"))
    with file.open("r+b") as text:
        text.truncate(0)
