"""`python -m tests.simulation`: simulated quorums by a seed, for a number of steps; SEED and STEPS are variables.

A run of many steps consists of several simulations of LIFE steps; each has its own seed, starting with the given one.
After each of them, every incident happens with the same seed.
"""

import os
import sys
import time
from random import SystemRandom

from tests.simulation.ground_truth import BrokenInvariant
from tests.simulation.incident_simulation import IncidentSimulation
from tests.simulation.incidents import INCIDENTS
from tests.simulation.simulation import Simulation

LIFE = 50_000


def main() -> int:
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1_000_000))
    steps = int(os.environ.get("STEPS") or 100_000)
    print(f"simulate: seed {seed}, {steps} steps", flush=True)  # noqa: T201
    began, done = time.monotonic(), 0
    while done < steps:
        simulation = Simulation(seed)
        truth, checker = simulation.ground_truth, simulation.checker
        try:
            simulation.run(min(LIFE, steps - done))
            for incident in INCIDENTS.values():
                IncidentSimulation(seed, incident).check()
        except BrokenInvariant as broken:
            print(broken, file=sys.stderr)  # noqa: T201
            return 1
        done += simulation.steps
        print(  # noqa: T201
            f"{done:>9} steps  seed {seed}: {len(simulation.nodes)} controllers, {len(truth.leaders)} elections, "
            f"{len(truth.committed)} records, {simulation.fault_injection.count} faults, "
            f"{simulation.calm_phases} recoveries, {checker.rows} observations, {len(checker.alerts)} alerts; "
            f"{checker.agreement.report}",
            flush=True,
        )
        seed += 1
    print(f"simulate: {done} steps without a broken invariant in {time.monotonic() - began:.0f} s")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
