"""What a person waits for: CPU seconds of whole processes of on-call commands that read nothing, medians."""

import sys
from collections.abc import Mapping, Sequence
from statistics import median

from tests.bench.decode_bench import cost_of

RUNS = 5
COMMANDS: Mapping[str, Sequence[str]] = {
    "`kraftwatch --help`": ["--help"],
    "`kraftwatch explain no-leader`": ["explain", "no-leader"],
    "`kraftwatch check` of an address that refuses": ["check", "--cluster", "demo=127.0.0.1:1", "--timeout", "2"],
}


def figures() -> dict[str, dict[str, float]]:
    """Returns CPU seconds and memory in MB, by command."""
    return {name: _cost(words) for name, words in COMMANDS.items()}


def _cost(words: Sequence[str]) -> dict[str, float]:
    costs = [cost_of([sys.executable, "-m", "streaming", *words]) for _ in range(RUNS)]
    return {
        "CPU s": round(median(one.cpu_s for one in costs), 2),
        "MB": round(max(one.memory_mb for one in costs)),
    }
