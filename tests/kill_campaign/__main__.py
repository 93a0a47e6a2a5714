"""`make kill-campaign SEED= COUNT=`: kills the real job COUNT times, and checks that no alert is lost or doubled.

SEED and COUNT are environment variables; HALF is `recorded` or `live` for one half only. Exit code 1 if a promise is
broken: the folder with everything that is needed to find out why is then kept and named.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from random import SystemRandom

from rich.console import Console

from tests.kill_campaign.campaign_result import CampaignResult
from tests.kill_campaign.live_campaign import LiveCampaign
from tests.kill_campaign.recorded_campaign import RecordedCampaign

CONSOLE = Console(highlight=False, soft_wrap=True)
RECORDED_SHARE = 0.6
DEFAULT_COUNT = 100


def main() -> int:
    """Runs the campaign and returns the exit code."""
    # So that the job and the quorum end with the campaign.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    seed = int(os.environ.get("SEED") or SystemRandom().randrange(1_000_000))
    count = int(os.environ.get("COUNT") or DEFAULT_COUNT)
    half = os.environ.get("HALF") or "both"
    recorded = {"recorded": count, "live": 0}.get(half, max(1, round(count * RECORDED_SHARE)))
    CONSOLE.print(f"kill campaign: seed {seed}, {count} kills, {recorded} over a recording and {count - recorded} live")
    folder = Path(tempfile.mkdtemp(prefix=f"kraftwatch-kill-campaign-{seed}-"))
    results = []
    if recorded:
        results.append(_run_recorded(folder / "recorded", seed, recorded))
    if count > recorded:
        results.append(_run_live(folder / "live", seed, count - recorded))
    for result in results:
        result.print(CONSOLE)
    (folder / "result.json").write_text(json.dumps([result.to_json() for result in results], indent=1))
    if any(result.problems for result in results):
        again = f"make kill-campaign SEED={seed} COUNT={count}" + (f" HALF={half}" if half != "both" else "")
        CONSOLE.print(f"kill campaign: failed; its files are in {folder}; run it again with: {again}")
        return 1
    shutil.rmtree(folder)
    CONSOLE.print(f"kill campaign: passed; {sum(len(result.kills) for result in results)} kills")
    return 0


def _run_recorded(folder: Path, seed: int, count: int) -> CampaignResult:
    folder.mkdir()
    campaign = RecordedCampaign(folder, seed, count)
    campaign.run_uninterrupted()
    CONSOLE.print(f"recorded: {len(campaign.expected)} transitions without a kill")
    return campaign.run(lambda kill: CONSOLE.print(f"  recorded: {kill}", markup=False))


def _run_live(folder: Path, seed: int, count: int) -> CampaignResult:
    folder.mkdir()
    return LiveCampaign(folder, seed, count).run(lambda kill: CONSOLE.print(f"  live: {kill}", markup=False))


if __name__ == "__main__":
    sys.exit(main())
