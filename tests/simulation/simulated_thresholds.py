"""The thresholds that simulated monitors are configured with, and by which its alerts are checked: plain numbers.

Holds of minutes and hours are shortened, so that a simulation of some minutes contains every alert and its resolution.
"""

from collections.abc import Mapping

CLEAR_S = 10.0
HOLD_S: Mapping[str, float] = {
    "broker-fenced": 60.0,
    "broker-flapping": 0.0,
    "certificate-expiring": 60.0,
    "committed-metadata-lost": 0.0,
    "data-contract-broken": 0.0,
    "duplicate-node-id": 30.0,
    "epoch-churn": 20.0,
    "failure-tolerance": 60.0,
    "forced-reconfiguration": 0.0,
    "ghost-registration": 60.0,
    "high-watermark-stalled": 20.0,
    "leader-clock-skew": 30.0,
    "monitor-blind": 30.0,
    "no-leader": 5.0,
    "node-records-conflict": 60.0,
    "node-restarting": 0.0,
    "observer-could-be-voter": 60.0,
    "observer-lagging": 60.0,
    "open-transaction": 60.0,
    "partition-stuck-recovering": 60.0,
    "quorum-shape": 90.0,
    "raft-invariant-broken": 5.0,
    "recovery-invariant-broken": 0.0,
    "snapshot-stale": 30.0,
    "stale-voter-endpoint": 30.0,
    "unclean-election": 0.0,
    "version-drift": 60.0,
    "views-disagree": 60.0,
    "voter-change-stuck": 4.0,
    "voter-disk-replaced": 60.0,
    "voter-lagging": 60.0,
    "voter-log-regressed": 5.0,
}
"""By rule: how long a condition lasts before its alert fires."""
KEEP_FIRING_S = 90.0
"""How long rules about past events keep firing."""
CHURN_WINDOW_S = 180.0
CHURN_ELECTIONS = 4
DUPLICATE_WINDOW_S = 90.0
EPOCH_JUMP = 10
FLAPPING_WINDOW_S = 120.0
FENCINGS = 4
RESTART_WINDOW_S = 120.0
RESTARTS = 3
REMOVED_FOR_S = 60.0
SNAPSHOT_AGE_S = 100.0
FINALIZE_S = 150.0
STILL_S = 30.0
SKEW_S = 60.0
FETCH_AGE_S = 10.0
"""The product's own default, as are all thresholds that are not listed here."""
BROKER_LAG_S = 30.0
OVERRIDES: Mapping[str, float] = {
    **{f"{rule}.hold": seconds for rule, seconds in HOLD_S.items()},
    "broker-flapping.window": FLAPPING_WINDOW_S,
    "data-contract-broken.stands": KEEP_FIRING_S,
    "duplicate-node-id.window": DUPLICATE_WINDOW_S,
    "epoch-churn.window": CHURN_WINDOW_S,
    # What the polls show of a whole window is tested by scripts.
    "failure-tolerance.share": 101.0,
    "forced-reconfiguration.keep_firing_for": KEEP_FIRING_S,
    # The simulation replaces the disks of one node again and again.
    "voter-change-stuck.removals": 1_000.0,
    "high-watermark-stalled.still": STILL_S,
    "node-restarting.window": RESTART_WINDOW_S,
    "observer-could-be-voter.removed_for": REMOVED_FOR_S,
    "recovery-invariant-broken.keep_firing_for": KEEP_FIRING_S,
    "snapshot-stale.age": SNAPSHOT_AGE_S,
    "unclean-election.keep_firing_for": KEEP_FIRING_S,
    "version-drift.finalize": FINALIZE_S,
    "voter-log-regressed.keep_firing_for": KEEP_FIRING_S,
}
"""`RULE.NAME` -> value, as the configuration takes them."""
INHIBITED_BY: Mapping[str, tuple[str, ...]] = {
    "broker-fenced": ("no-leader", "high-watermark-stalled"),
    "broker-flapping": ("no-leader", "high-watermark-stalled"),
    "epoch-churn": ("no-leader",),
    "failure-tolerance": ("no-leader", "high-watermark-stalled"),
    "ghost-registration": ("no-leader",),
    "high-watermark-stalled": ("no-leader",),
    "node-records-conflict": ("no-leader",),
    "observer-could-be-voter": ("no-leader",),
    "observer-lagging": ("no-leader", "high-watermark-stalled"),
    "open-transaction": ("no-leader", "high-watermark-stalled"),
    "partition-stuck-recovering": ("no-leader",),
    "quorum-shape": ("no-leader", "voter-disk-replaced"),
    "snapshot-stale": ("no-leader", "high-watermark-stalled"),
    "stale-voter-endpoint": ("no-leader",),
    "version-drift": ("no-leader",),
    "views-disagree": ("no-leader",),
    "voter-change-stuck": ("no-leader",),
    "voter-disk-replaced": ("no-leader",),
    "voter-lagging": ("no-leader", "high-watermark-stalled", "failure-tolerance"),
    "voter-log-regressed": ("no-leader",),
}
"""The rules whose condition keeps a rule from firing. A test compares them with the product's."""
OUTLIVES_CAUSE = ("failure-tolerance", "voter-disk-replaced", "voter-lagging")
"""Rules that have no second hold: what is left when the last alert that inhibits them resolves fires at once."""
HELD_BY_EVIDENCE = ("version-drift",)
"""Rules whose hold is counted from what the newest registration shows: their alert may fire at once."""
