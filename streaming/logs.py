"""Where words go: ours to the terminal, everybody else's to a file of bounded size."""

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

OURS = ("streaming", "connectors", "rules")


def direct(folder: Path) -> None:
    """Send every library's log to `driver.log` in `folder`, and our own warnings to stderr as well.

    A terminal is for alerts: a library that loses a connection while we stop has nothing to say there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = RotatingFileHandler(folder / "driver.log", maxBytes=5_000_000, backupCount=2, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.root.addHandler(file)
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(logging.WARNING)
    terminal.setFormatter(logging.Formatter("kraftwatch: %(message)s"))
    for name in OURS:
        logging.getLogger(name).addHandler(terminal)
