"""The configuration: one YAML file or a few options, checked wholly before anything starts.

Only this package knows pydantic models of the configuration; everything inside gets plain dataclasses.
Every mistake is one sentence that names the key, the place and what to do.
"""

from streaming.config.cluster_section import ClusterSection, host_port
from streaming.config.json_schema import config_json_schema
from streaming.config.loading import checked, load, mistakes
from streaming.config.root import Config
from streaming.config.thresholds import flattened, in_force

__all__ = [
    "ClusterSection",
    "Config",
    "checked",
    "config_json_schema",
    "flattened",
    "host_port",
    "in_force",
    "load",
    "mistakes",
]
