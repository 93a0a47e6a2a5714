"""`python -m tests.simulation`: a simulated quorum by a seed, for a number of steps; SEED and STEPS are variables.

A run of many steps is cut into lives of a quorum: each has its own seed, the first of them the one given.
"""

import os
import sys
import time
from random import SystemRandom

from tests.simulation.event_counts import Tally, told
from tests.simulation.ground_truth import Broken
from tests.simulation.simulation import Simulation

LIFE_STEPS = 50_000


def main() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1_000_000))
    steps = int(os.environ.get("STEPS") or 100_000)
    print(f"simulate: seed {seed}, {steps} steps", flush=True)  # noqa: T201
    began, cpu, done, tally = time.monotonic(), time.process_time(), 0, Tally()
    while done < steps:
        simulation = Simulation(seed)
        try:
            simulation.run(min(LIFE_STEPS, steps - done))
        except Broken as broken:
            print(broken, file=sys.stderr)  # noqa: T201
            return 1
        done += simulation.steps
        tally.add(simulation)
        print(f"{done:>9} steps  {told(simulation)}", flush=True)  # noqa: T201
        seed += 1
    print("\n".join(tally.lines()))  # noqa: T201
    rate, of_cpu = done / (time.monotonic() - began), done / (time.process_time() - cpu)
    print(  # noqa: T201
        f"simulate: {done} steps without a broken invariant, {rate:,.0f} steps/s ({of_cpu:,.0f} a second of CPU)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
