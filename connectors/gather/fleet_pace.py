"""How a gatherer of many clusters observes each of them: fewer publications and fewer requests, a little later.

The limits are so that a change is published within about a second with 1,000 clusters.
"""

from typing import Final

CLUSTERS_PER_TURN: Final = 250
MOST_TURNS: Final = 4
_LONGEST_PAUSE_S: Final = 1.0
_PAUSE_S_PER_CLUSTER: Final = 0.001
_START_S_PER_CLUSTER: Final = 0.015


def is_large(clusters: int) -> bool:
    """Returns whether so many clusters are observed at another pace than few."""
    return clusters > CLUSTERS_PER_TURN


def turns_of(clusters: int) -> int:
    """Returns over how many publications, one a second, the quiet rows of so many clusters are spread; 1: none wait."""
    return max(1, min(MOST_TURNS, -(-clusters // CLUSTERS_PER_TURN)))


def fetch_pause_s(clusters: int) -> float:
    """Returns how long a log follower waits after it has read all that is committed.

    A leader answers a waiting Fetch for each record, and again when it is committed: an idle quorum's log then takes
    four requests a second. After a pause one request returns all records since the last one.
    """
    return 0.0 if not is_large(clusters) else min(_LONGEST_PAUSE_S, _PAUSE_S_PER_CLUSTER * clusters)


def start_span_s(clusters: int) -> float:
    """Returns over what time the starts of so many clusters are spread.

    The first seconds of a cluster cost as much as a minute of it later: connections, the whole log, first evaluations.
    And clusters that start together are polled together from then on, each of them late.
    """
    return _START_S_PER_CLUSTER * (clusters - 1)
