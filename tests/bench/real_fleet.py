"""Many names of one real quorum, in place of the farm: what the doubles are compared with.

Each name has host names of its own in the lab's hosts file, because a configuration may not give two clusters the same
address. The quorum is one, so that a change in it is a change of every name.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from connectors.gather.gatherer_stats import read_stats
from deploy.lab.lab import Lab
from tests.bench.fenced_broker import FencedBroker
from tests.bench.idle_bench import cpu_s

MOST_NAMES = 20
"""Three real controllers answer every name."""
_BROKER = 201


class RealFleet:
    """Names of one real quorum of three controllers and two brokers."""

    def __init__(self, lab: Lab, broker: FencedBroker, size: int) -> None:
        self._lab, self._broker = lab, broker
        self.hosts_file = lab.hosts_file
        for number in range(size):
            lab.names.add(*(self._host(number, id_) for id_ in lab.controllers))

    def bootstrap(self, number: int) -> list[tuple[str, int]]:
        """Returns the controllers' addresses under the names of this cluster."""
        ports = {id_: self._lab.node(id_).controller_port or 0 for id_ in self._lab.controllers}
        return [(self._host(number, id_), port) for id_, port in ports.items()]

    def command(self, line: str) -> None:
        """Fences or unfences a broker, whatever cluster the command names."""
        change, _ = line.split()
        assert change in ("fence", "unfence"), f"a real quorum cannot {line}"
        self._broker.set_fenced(change == "fence")

    def stats(self) -> dict[str, Any]:
        """Returns the CPU seconds of the controllers."""
        pids = [self._lab.node(id_).running_process().pid for id_ in self._lab.controllers]
        return {"cpu_s": sum(cpu_s(psutil.Process(pid)) for pid in pids), "requests": {}}

    @staticmethod
    def _host(number: int, node: int) -> str:
        return f"n{number}-c{node}.kraftwatch.invalid"


@contextmanager
def real_fleet(size: int) -> Iterator[RealFleet]:
    """Starts the quorum."""
    assert size <= MOST_NAMES, f"{size} names of one quorum: at most {MOST_NAMES}"
    with (
        tempfile.TemporaryDirectory(prefix="kraftwatch-real-", ignore_cleanup_errors=True) as folder,
        Lab(Path(folder) / "lab", controllers=3, brokers=2, named=True) as lab,
    ):
        leader = lab.await_state(lambda _: True, what="a leader").leader_id
        port = lab.node(leader).controller_port
        assert port is not None
        with FencedBroker(id=_BROKER, cluster_id=lab.cluster_id, port=port) as broker:
            yield RealFleet(lab, broker, size)


def requests_sent(stats_file: Path) -> int:
    """Returns how many requests a gatherer has sent, to all clusters."""
    stats = read_stats(stats_file)
    return 0 if stats is None else sum(each.requests_sent for each in stats.clusters.values())
