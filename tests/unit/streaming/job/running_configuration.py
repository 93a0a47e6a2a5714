"""A configuration that is in effect."""

from connectors.sinks.console import ConsoleSection
from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import MessageLinks
from streaming.config import Config
from streaming.job.running import Effective, JobSpec, Running


def effective(config: Config, *sinks: Sink) -> Effective:
    """Returns a configuration whose clusters have no ids, with these sinks."""
    spec = JobSpec.of(config)
    opened = [(ConsoleSection(), MessageLinks(), sink) for sink in sinks]
    return Effective(config=config, open_sinks=opened, spec=spec, identified=spec)


def running_with(config: Config, *sinks: Sink) -> Running:
    return Running(effective(config, *sinks))
