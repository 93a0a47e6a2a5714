"""What is logged to a file."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.process.json_log import LogFormat
from streaming.job import logging_setup


@contextlib.contextmanager
def logged_to(folder: Path, log_format: LogFormat = "text") -> Iterator[None]:
    """Logs as the driver does, until the end."""
    loggers = [logging.getLogger(name) for name in ("", *logging_setup.PACKAGES)]
    before = [{*logger.handlers} for logger in loggers]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging, "raiseExceptions", True)
        logging_setup.log_to(folder, log_format)
        yield
    for logger, known in zip(loggers, before, strict=True):
        for handler in {*logger.handlers} - known:
            logger.removeHandler(handler)
            with contextlib.suppress(OSError):
                handler.close()
