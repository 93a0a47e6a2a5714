"""The configuration: one YAML file or a few options, validated completely before anything starts.

Only this package knows the pydantic models of the configuration; all other code gets plain dataclasses. Each invalid
value of the file is reported in one sentence that names the key, the line and the fix.
"""

from connectors.settings import host_port
from streaming.config.cluster_section import ClusterSection, flattened
from streaming.config.loading import checked, load, mistakes
from streaming.config.root import Config, checkpoint_place, config_json_schema

__all__ = [
    "ClusterSection",
    "Config",
    "checked",
    "checkpoint_place",
    "config_json_schema",
    "flattened",
    "host_port",
    "load",
    "mistakes",
]
