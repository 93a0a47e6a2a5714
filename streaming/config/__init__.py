"""The configuration: one YAML file or a few options, checked wholly before anything starts.

Only this package knows pydantic models of the configuration; everything inside gets plain dataclasses.
Every mistake is one sentence that names the key, the place and what to do.
"""

from streaming.config.cluster import ClusterSection, host_port
from streaming.config.document import Config
from streaming.config.loading import checked, load, mistakes
from streaming.config.schema import schema
from streaming.config.thresholds import flattened, in_force

__all__ = ["ClusterSection", "Config", "checked", "flattened", "host_port", "in_force", "load", "mistakes", "schema"]
