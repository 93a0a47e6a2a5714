"""The configuration: one YAML file or a few options, validated completely before anything starts.

Only this package knows the pydantic models of the configuration; all other code gets plain dataclasses. Each invalid
value of the file is reported in one sentence that names the key, the line and the fix.

A name is imported when it is used: a query of clusters on the command line needs neither the sinks' sections nor YAML.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from connectors.settings.sections import host_port

if TYPE_CHECKING:
    from streaming.config.cluster_section import ClusterSection, flattened
    from streaming.config.clusters import ClustersConfig
    from streaming.config.clusters_checks import checked_clusters
    from streaming.config.loading import checked, load, mistakes
    from streaming.config.root import Config, checkpoint_place, config_json_schema

__all__ = [
    "ClusterSection",
    "ClustersConfig",
    "Config",
    "checked",
    "checked_clusters",
    "checkpoint_place",
    "config_json_schema",
    "flattened",
    "host_port",
    "load",
    "mistakes",
]
_MODULES = {
    **dict.fromkeys(("ClusterSection", "flattened"), "cluster_section"),
    "ClustersConfig": "clusters",
    "checked_clusters": "clusters_checks",
    **dict.fromkeys(("checked", "load", "mistakes"), "loading"),
    **dict.fromkeys(("Config", "checkpoint_place", "config_json_schema"), "root"),
}


def __getattr__(name: str) -> object:
    """Imports the module of a name of this package (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    found: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    return found
