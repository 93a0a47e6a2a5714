"""Python runs this module at the start of every process of an instrumented job: its folder is on their PYTHONPATH."""

import os

if "KRAFTWATCH_INSTRUMENTS" in os.environ:
    from pathlib import Path

    from tests.chaos.instrumentation import install

    install(Path(os.environ["KRAFTWATCH_INSTRUMENTS"]))
