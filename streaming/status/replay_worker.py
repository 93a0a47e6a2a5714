"""`python -m streaming.status.replay_worker`: replays journals for the job's page, in a process of its own.

It reads requests from stdin and writes replies to stdout, one JSON object each line. It has the lowest priority of the
machine, and ends when stdin is closed or after some minutes without a request.
"""

import os
import select
import sys
from collections.abc import Callable
from pathlib import Path

from connectors.errors import KraftwatchError
from rules.model.identifiers import Millis
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.past_replay import REPLIES, REQUESTS, PastReplay, PastReply, PastRequest

IDLE_S = 300
"""Without a request for so long the process ends, and with it its memory."""
_CLUSTERS_KEPT = 4


def main() -> None:
    """Answers requests until there are no more."""
    os.nice(19)
    replays: dict[tuple[str, str], tuple[ClusterSettings, PastReplay]] = {}
    # Unbuffered: what a buffer held would not be seen by select.
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as requests:
        while select.select([requests], [], [], IDLE_S)[0]:
            line = requests.readline()
            if not line:
                return
            request = REQUESTS.validate_json(line)
            _write(_reply(request, _replay_of(request, replays)))


def _replay_of(request: PastRequest, replays: dict[tuple[str, str], tuple[ClusterSettings, PastReplay]]) -> PastReplay:
    """Returns the replay of the request's cluster; of changed settings a new one."""
    key = (request.journal, request.cluster.name)
    known = replays.pop(key, None)
    if known is None or known[0] != request.cluster:
        known = (request.cluster, PastReplay(Path(request.journal), request.cluster))
    replays[key] = known
    while len(replays) > _CLUSTERS_KEPT:
        del replays[next(iter(replays))]
    return known[1]


def _reply(request: PastRequest, replay: PastReplay) -> PastReply:
    report: Callable[[float], None] = lambda done: _write(PastReply(progress=round(done, 3)))  # noqa: E731
    try:
        return PastReply(state=replay.state_at(Millis(request.at_ms), report))
    except KraftwatchError as problem:
        return PastReply(refusal=str(problem))


def _write(reply: PastReply) -> None:
    sys.stdout.buffer.write(REPLIES.dump_json(reply) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
