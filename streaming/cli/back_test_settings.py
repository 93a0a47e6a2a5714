"""The clusters' settings for a back-test: from a configuration file, or the defaults with `--set`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rules.evaluate import RuleOverride, with_overrides
from streaming.cli import config_from_options
from streaming.cli.recorded_config import recorded_config
from streaming.config import flattened, in_force
from streaming.replay.cluster_settings import ClusterSettings
from streaming.report.back_test import ClusterSettingsOf


def back_test_settings(
    config: Path | None, setting: Sequence[str], *, polled: bool, recorded: Path | None = None
) -> ClusterSettingsOf:
    """Returns the settings by cluster name: of the configuration's clusters, or of any cluster without one.

    Args:
        config: the configuration; None: the defaults.
        setting: RULE.NAME=VALUE each.
        recorded: the journal or bundle; a bundle's configuration counts if `config` is None.
        polled: whether the rows hold polls; without them, the rule about the monitor's own visibility is not evaluated.

    Raises:
        UsageError: the configuration or a setting is invalid.
    """
    blind = {} if polled else {"monitor-blind": RuleOverride(enabled=False)}
    resolved = recorded_config(config, setting, recorded)
    if resolved is None:
        thresholds = with_overrides(in_force(flattened(config_from_options.overrides({}, setting))), blind)
        return lambda name: ClusterSettings(name=name, thresholds=thresholds)
    found = {section.name: resolved.cluster_settings(section) for section in resolved.watched}
    found = {name: replace(each, thresholds=with_overrides(each.thresholds, blind)) for name, each in found.items()}
    if polled:
        return found.get
    # A log directory does not know its cluster's name: the configuration's only cluster, or the rules for all.
    only = next(iter(found.values())) if len(found) == 1 else None
    thresholds = with_overrides(resolved.thresholds_in_force(), blind)
    return lambda name: only or ClusterSettings(name=name, thresholds=thresholds)
