"""Every kind of sink that uses HTTP, for the tests of the contract: `KINDS` of each tests/sinks/test_KIND.py."""

from importlib import import_module
from pathlib import Path

from connectors.sinks.sink_entry import SINK_SECTIONS
from tests.sinks.sink_kind import SinkKind


def _kinds(section: str) -> list[SinkKind]:
    """Returns the kinds in the module of tests of one section; none if it has no such module."""
    if not (Path(__file__).parent / f"test_{section}.py").exists():
        return []
    kinds: list[SinkKind] = import_module(f"tests.sinks.test_{section}").KINDS
    return kinds


SINK_KINDS = [kind for section in SINK_SECTIONS for kind in _kinds(section)]
