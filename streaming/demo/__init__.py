"""The demo: faults injected into a real quorum, scenario by scenario, while the real job monitors it."""
