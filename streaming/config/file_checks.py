"""Files that a configuration names and the job reads. Those of a sink are looked at when it is opened."""

from collections.abc import Sequence

from connectors.errors import UsageError
from streaming.config.root import Config
from streaming.config.section import readable


def unreadable(config: Config) -> Sequence[str]:
    """A sentence for each cluster whose login names a file that this user cannot read, and for the heartbeat's."""
    found = []
    for section in config.clusters:
        try:
            section.cluster()
        except UsageError as problem:
            found.append(str(problem))
    if config.heartbeat is not None and config.heartbeat.url_file is not None:
        try:
            readable(config.heartbeat.url_file, "heartbeat.url_file")
        except UsageError as problem:
            found.append(str(problem))
    return found
