"""The thresholds of simulated monitors: holds and windows of minutes and hours are shorter, so that alerts resolve."""

from collections.abc import Mapping

from rules.evaluate import thresholds_for

KEEP_FIRING_S = 90.0
"""How long rules about past events keep firing."""
CHURN_WINDOW_S = 180.0
DUPLICATE_WINDOW_S = 90.0
FLAPPING_WINDOW_S = 120.0
RESTART_WINDOW_S = 120.0
SNAPSHOT_AGE_S = 100.0
OVERRIDES: Mapping[str, float] = {
    "broker-fenced.hold": 60.0,
    "broker-flapping.window": FLAPPING_WINDOW_S,
    "data-contract-broken.stands": KEEP_FIRING_S,
    "duplicate-node-id.window": DUPLICATE_WINDOW_S,
    "epoch-churn.hold": 20.0,
    "epoch-churn.window": CHURN_WINDOW_S,
    "failure-tolerance.hold": 60.0,
    # What the polls show of a whole window is tested by scripts.
    "failure-tolerance.share": 101.0,
    "forced-reconfiguration.keep_firing_for": KEEP_FIRING_S,
    "ghost-registration.hold": 60.0,
    "node-restarting.window": RESTART_WINDOW_S,
    "observer-could-be-voter.hold": 60.0,
    "observer-could-be-voter.removed_for": 60.0,
    "observer-lagging.hold": 60.0,
    # Longer than the simulation goes on after an incident that leaves an even number of voters.
    "quorum-shape.hold": 150.0,
    "recovery-invariant-broken.keep_firing_for": KEEP_FIRING_S,
    "snapshot-stale.age": SNAPSHOT_AGE_S,
    "unclean-election.keep_firing_for": KEEP_FIRING_S,
    "version-drift.hold": 60.0,
    "voter-change-stuck.hold": 4.0,
    # The simulation replaces the disks of one node again and again.
    "voter-change-stuck.removals": 1_000.0,
    "voter-lagging.hold": 60.0,
    "voter-log-regressed.keep_firing_for": KEEP_FIRING_S,
}
"""`RULE.NAME` -> value, as the configuration takes them."""
THRESHOLDS = thresholds_for(OVERRIDES)
