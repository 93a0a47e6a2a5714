"""The scenarios of a metadata log."""

from pathlib import Path

SCENARIOS = sorted((Path(__file__).parent / "log_scenarios").glob("*.txt"))
