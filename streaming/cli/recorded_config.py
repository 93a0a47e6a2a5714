"""The configuration with which recorded data is evaluated: the one of `--config`, of a bundle, or the defaults."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from connectors.store.bundle_file import bundled_config
from rules.evaluate import RuleOverride, with_overrides
from rules.finding import Thresholds
from streaming.cli import config_from_options

if TYPE_CHECKING:
    from streaming.config import Config
    from streaming.report.back_test import ClusterSettingsOf

ThresholdsOf: TypeAlias = Callable[[str], Mapping[str, Thresholds]]
"""Returns the thresholds of a cluster, by rule id, by the cluster's name."""


def recorded_config(config: Path | None, setting: Sequence[str], recorded: Path | None) -> "Config | None":
    """Returns the configuration with the settings applied; None if there is none.

    Args:
        setting: RULE.NAME=VALUE each.
        recorded: a checkpoint, a journal or a bundle; only a bundle may hold a configuration.

    Raises:
        UsageError: the configuration or a setting is invalid, or the bundle is damaged.
    """
    if config is not None:
        return config_from_options.resolve_config(config=config, setting=setting)
    data = None if recorded is None or not recorded.is_file() else bundled_config(recorded)
    if data is None:
        return None
    from streaming.config import checked
    from streaming.report.bundle import config_of_bundle

    plain = config_of_bundle(data)
    for section in (plain, *plain["clusters"]):
        section["thresholds"] = config_from_options.overrides(section.get("thresholds", {}), setting)
    return checked(plain, f"{recorded}: its configuration")


def recorded_thresholds(config: Path | None, setting: Sequence[str], recorded: Path | None) -> ThresholdsOf:
    """Returns the thresholds of each cluster; of one that the configuration does not name, those for all clusters.

    Arguments and errors as of `recorded_config`.
    """
    from streaming.config import flattened, in_force

    resolved = recorded_config(config, setting, recorded)
    if resolved is None:
        common = in_force(flattened(config_from_options.overrides({}, setting)))
        return lambda _: common
    by_name = {section.name: resolved.thresholds_in_force(section) for section in resolved.clusters}
    others = resolved.thresholds_in_force()
    return lambda name: by_name.get(name, others)


def back_test_settings(
    config: Path | None, setting: Sequence[str], *, polled: bool, recorded: Path | None = None
) -> "ClusterSettingsOf":
    """Returns the settings by cluster name: of the configuration's clusters, or of any cluster without one.

    Args:
        setting: RULE.NAME=VALUE each.
        recorded: the journal or bundle; a bundle's configuration counts if `config` is None.
        polled: whether the rows hold polls; without them, the rule about the monitor's own visibility is not evaluated.

    Raises:
        UsageError: the configuration or a setting is invalid.
    """
    from streaming.config import flattened, in_force
    from streaming.replay.cluster_settings import ClusterSettings

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
