"""Checks of the files that a configuration names. Files of a sink are checked when the sink is opened."""

from collections.abc import Sequence

from connectors.errors import UsageError
from streaming.config.root import Config
from streaming.config.section import readable


def unreadable(config: Config) -> Sequence[str]:
    """Returns a sentence for each file of a cluster's login, of the heartbeat or of the page that cannot be used."""
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
    for check in (config.page_access().tls, config.page_access().check_token):
        try:
            check()
        except UsageError as problem:
            found.append(str(problem))
    return found
