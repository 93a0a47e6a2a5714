"""`make kill-campaign SEED= COUNT=`: kills the real job COUNT times, and checks that no alert is lost or doubled.

SEED and COUNT are environment variables. Exit code 1 if a promise is broken: the folder with everything that is needed
to find out why is then kept and named.
"""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from rich.console import Console

from tests.kill_campaign.campaign import Campaign

CONSOLE = Console(highlight=False, soft_wrap=True)
DEFAULT_COUNT = 100


def main() -> int:
    """Runs the campaign and returns the exit code."""
    # So that the job ends with the campaign.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1_000_000))
    count = int(os.environ.get("COUNT") or DEFAULT_COUNT)
    CONSOLE.print(f"kill campaign: seed {seed}, {count} kills")
    folder = Path(tempfile.mkdtemp(prefix=f"kraftwatch-kill-campaign-{seed}-"))
    campaign = Campaign(folder, seed, count)
    result = campaign.run(lambda kill: CONSOLE.print(f"  {kill}", markup=False))
    result.print(CONSOLE)
    if result.problems:
        again = f"make kill-campaign SEED={seed} COUNT={count}"
        CONSOLE.print(f"kill campaign: failed; its files are in {folder}; run it again with: {again}")
        return 1
    shutil.rmtree(folder)
    CONSOLE.print(f"kill campaign: passed; {len(result.kills)} kills")
    return 0


if __name__ == "__main__":
    sys.exit(main())
