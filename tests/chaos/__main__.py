"""`make chaos SEED=n HOURS=h [FAULTS=WORD,...]`: overlapping faults, a real quorum, the real job, and an oracle.

A seed chooses 3 or 5 controllers, one job or relays with a topic, a store and one or two jobs, the faults, their
overlap and their length; FAULTS selects the faults whose names contain a word: with FAULTS=kill processes are killed
at named points and at random moments. The oracle knows only what was done: it says which alerts must, may and must not
fire, and what people must receive. With one job, each transition of its ledger must be sent once to each sink, and a
replay of its journal must have the same ones. Everything runs in a network namespace of its own, in which nftables
(Debian's package) cuts single paths, and with small disks that become full; that needs root. Exits with 1 if anything
was missed, false, lost, sent twice or not resolved.

`make chaos FORECAST=n SEED=n` injects so many faults one after the other, asks safe-to-restart and what-if, and does
what was called safe (`tests.chaos.chaos_forecast`). Exits with 1 if it was not, or an answer about the healthy quorum
is unknown.

`make chaos WITNESS=n SEED=n` does the same with faults between controllers, and with the rows of their hosts
(`tests.chaos.chaos_witness`). It also exits with 1 if the rows do not show a fault before anything is lost.

`make chaos OUTAGES=n` tries each total outage of `tests.chaos.outages` on n controllers, whose names contain a word of
FAULTS. Exits with 1 if one had no page within 15 s of its hold, two, or one that resolved before it ended.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from deploy.lab.jars import kafka_jars
from tests.chaos.chaos_forecast import FORECAST_FAULTS, ChaosForecast
from tests.chaos.chaos_outages import ChaosOutages
from tests.chaos.chaos_run import ALL_FAULTS, ChaosRun
from tests.chaos.chaos_witness import ChaosWitness
from tests.chaos.verdict import judge

CONSOLE = Console(highlight=False, soft_wrap=True)
_INSIDE = "KRAFTWATCH_CHAOS_NETWORK"


def main() -> int:
    """Runs one seed."""
    if shutil.which("nft") is None:
        CONSOLE.print("make chaos needs nft (Debian's package nftables) and root, to cut the paths between nodes")
        return 2
    if os.environ.get(_INSIDE) is None:
        # The network inside reaches no registry.
        kafka_jars()
        command = ["unshare", "--net", "--mount", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable]
        return subprocess.run([*command, "-m", "tests.chaos"], env={**os.environ, _INSIDE: "1"}, check=False).returncode
    seed, hours = int(os.environ.get("SEED") or 1), float(os.environ.get("HOURS") or 1)
    only = [word.strip() for word in os.environ.get("FAULTS", "").split(",") if word.strip()]
    folder = Path(tempfile.mkdtemp(prefix="kraftwatch-chaos-"))
    if outages := int(os.environ.get("OUTAGES") or 0):
        return _outages(ChaosOutages(folder=folder, controllers=outages, only=tuple(only), say=_say))
    rounds, dials = (int(os.environ.get(name) or 0) for name in ("FORECAST", "WITNESS"))
    all_faults = FORECAST_FAULTS if rounds else ALL_FAULTS
    faults = [fault for fault in all_faults if not only or any(word in fault.name for word in only)]
    if rounds or dials:
        witness = ChaosWitness(folder=folder, seed=seed, rounds=dials, words=tuple(only), say=_say)
        forecast = ChaosForecast(folder=folder, seed=seed, rounds=rounds, faults=faults, say=_say)
        return _forecast(witness if dials else forecast)
    began = time.monotonic()
    run = ChaosRun(folder=folder, seed=seed, seconds=hours * 3_600, faults=faults, say=_say)
    course = run.run()
    verdict = judge(course)
    deliveries = [asdict(each) for each in run.deliveries]
    result = {"seed": seed, "hours": hours, "faults": run.counts, "run": run.problems, **asdict(verdict)}
    result |= {"kills": [str(each) for each in run.kills], "deliveries": deliveries}
    (folder / "verdict.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    for name, count in sorted(run.counts.items()):
        CONSOLE.print(f"{count:4} {name}", markup=False)
    for rule, delays in sorted(verdict.delays.items()):
        CONSOLE.print(f"{len(delays):4} {rule}: {max(delays):.0f} s at most after its beginning", markup=False)
    if run.kills:
        CONSOLE.print(f"killed: {', '.join(each.at for each in run.kills)}", markup=False)
    for sink in run.deliveries:
        CONSOLE.print(str(sink), *sink.explained, sep="\n  ", markup=False)
    problems = [*verdict.problems, *(problem for sink in run.deliveries for problem in sink.problems)]
    for problem in (*(f"run: {each}" for each in run.problems), *problems):
        CONSOLE.print(problem, style="red", markup=False)
    fired = sum(each.state == "firing" for each in course.reported)
    CONSOLE.print(
        f"seed {seed}: {sum(run.counts.values())} faults, {fired} alerts, {len(course.notified)} notifications, "
        f"{len(problems)} problems, {time.monotonic() - began:.0f} s; {folder}",
        markup=False,
    )
    return 1 if problems or run.problems else 0


def _say(text: str) -> None:
    CONSOLE.print(f"{time.strftime('%H:%M:%S', time.gmtime())} {text}", style="dim", markup=False)


def _forecast(forecast: ChaosForecast) -> int:
    """Runs one seed of forecasts."""
    began = time.monotonic()
    forecast.run()
    for name, count in sorted(forecast.injected.items()):
        CONSOLE.print(f"{count:4} {name}", markup=False)
    for line in forecast.report():
        CONSOLE.print(line, markup=False)
    return _ended(f"seed {forecast.seed}: {forecast.injected.total()} faults", forecast, began)


def _outages(outages: ChaosOutages) -> int:
    """Tries each total outage."""
    began = time.monotonic()
    outages.run()
    return _ended(f"{len(outages.rows)} outages of {outages.controllers} controllers", outages, began)


def _ended(tried: str, run: ChaosForecast | ChaosOutages, began: float) -> int:
    """Prints the problems of a run that began then, and returns the exit code."""
    for problem in run.problems:
        CONSOLE.print(problem, style="red", markup=False)
    seconds = time.monotonic() - began
    CONSOLE.print(f"{tried}, {len(run.problems)} problems, {seconds:.0f} s; {run.folder}", markup=False)
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
