"""`python -m tests.simulation`: simulated quorums by a seed, for a number of steps; SEED, STEPS and LIFE are variables.

A run of many steps consists of several simulations of LIFE steps; each has its own seed, starting with the given one.
"""

import os
import sys
import time
from random import SystemRandom

from tests.simulation.event_counts import EventCounts, summary_line
from tests.simulation.ground_truth import BrokenInvariant
from tests.simulation.simulation import Simulation

LIFE = 50_000


def main() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1_000_000))
    steps = int(os.environ.get("STEPS") or 100_000)
    life = int(os.environ.get("LIFE") or LIFE)
    print(f"simulate: seed {seed}, {steps} steps", flush=True)  # noqa: T201
    began, cpu, done, counts = time.monotonic(), time.process_time(), 0, EventCounts()
    while done < steps:
        simulation = Simulation(seed)
        try:
            simulation.run(min(life, steps - done))
        except BrokenInvariant as broken:
            print(broken, file=sys.stderr)  # noqa: T201
            return 1
        done += simulation.steps
        counts.add(simulation)
        print(f"{done:>9} steps  {summary_line(simulation)}", flush=True)  # noqa: T201
        seed += 1
    print("\n".join(counts.lines()))  # noqa: T201
    rate, of_cpu = done / (time.monotonic() - began), done / (time.process_time() - cpu)
    print(  # noqa: T201
        f"simulate: {done} steps without a broken invariant, {rate:,.0f} steps/s ({of_cpu:,.0f} a second of CPU)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
