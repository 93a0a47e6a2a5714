"""The commands that describe a situation: `situation("stop-fetching 2", "fence 101 since 200s")` returns its Quorum.

An age such as `since 75s` is the time from then to now.
"""

from collections.abc import Iterable
from functools import cache

from rules.model.quorum import Quorum
from tests.situation import (  # noqa: F401 - they register their commands
    cluster_commands,
    endpoints_commands,
    failures_commands,
    leaders_commands,
    log_commands,
    nodes_commands,
    partitions_commands,
    replicas_commands,
)
from tests.situation.registry import command as command
from tests.situation.registry import run_all
from tests.situation.situation import Situation


@cache
def situation(*commands: str) -> Quorum:
    """Returns the quorum after these commands. Without any it is healthy."""
    return described(commands).quorum


def described(commands: Iterable[str]) -> Situation:
    """Returns the situation that these commands describe, which is not replayed yet."""
    made = Situation()
    run_all(made, commands)
    return made
