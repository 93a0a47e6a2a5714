"""`python -m tests.simulation`: a simulated quorum by a seed, for a number of steps; SEED and STEPS are variables.

A run of many steps is cut into lives of a quorum: each has its own seed, the first of them the one given.
"""

import os
import sys
import time
from random import SystemRandom

from tests.simulation.simulation import Simulation
from tests.simulation.truth import Broken

LIFE_STEPS = 100_000


def main() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1_000_000))
    steps = int(os.environ.get("STEPS") or 100_000)
    print(f"simulate: seed {seed}, {steps} steps", flush=True)  # noqa: T201
    began, done = time.monotonic(), 0
    while done < steps:
        simulation = Simulation(seed)
        try:
            simulation.run(min(LIFE_STEPS, steps - done))
        except Broken as broken:
            print(broken, file=sys.stderr)  # noqa: T201
            return 1
        done += simulation.steps
        print(summary(simulation), flush=True)  # noqa: T201
        seed += 1
    rate = done / (time.monotonic() - began)
    print(f"simulate: {done} steps without a broken invariant, {rate:,.0f} steps/s")  # noqa: T201
    return 0


def summary(simulation: Simulation) -> str:
    truth, judge = simulation.truth, simulation.judge
    return (
        f"seed {simulation.seed}: {simulation.steps} steps, {len(simulation.nodes)} controllers, "
        f"{len(truth.leaders)} elections, {len(truth.committed)} records committed, {simulation.chaos.deeds} deeds, "
        f"{simulation.calms} calms, {judge.rows} observations, {judge.restarts} restarts of the monitor, "
        f"{len(judge.alerts)} alerts"
    )


if __name__ == "__main__":
    sys.exit(main())
