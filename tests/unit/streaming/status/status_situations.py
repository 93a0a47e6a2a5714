"""Situations whose whole status is shown: each has other parts of it."""

from collections.abc import Mapping

from rules.model.quorum import Quorum
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine
from tests.situation.commands import situation

KIP_595_SAMPLE = (
    *("voters 0,1,2", "observer 3,4", "brokers none", "polls-only", "log 1h leader 0 epoch 15"),
    # The leader's log ends at 234,134.
    *("log 1s noops 224136", "polled high-watermark 234130 since 0s"),
    *("stopped 1 since 0s end 234130", "stopped 2 since 0s end 234100"),
    *("stopped 3 since 0s end 234124", "stopped 4 since 0s end 234130"),
    *("behind 1 10ms", "behind 2,4 15ms", "behind 3 12ms"),
)
"""KIP-595's sample of `describe`: leader 0, voters 1 and 2, observers 3 and 4, with log ends and lag times."""

IN_THE_MIDDLE_OF_EVERYTHING = (
    # What is older was read from a snapshot: a partition that was recovering, of a topic without a name.
    *("compacted 2h", "log 3h partition other-7 101,103 recovering", "log 3h change other-7 isr 103 leader none"),
    # Voter 2 was removed, voter 4 added, and voter 1 moved; all of it was undone at once.
    *("voter-set 50m 1 3", "voter-set 45m 1 3 4", "voter-set 40m 1@c1:19093 3 4", "voter-set 30m 1 2 3"),
    *("log 20m leader 2 epoch 9 voters 1,2,3 granted 1,2", "log 10m leader 3 epoch 11 voters 1,2,3 granted 1,3"),
    "starts 1 200s",
    # The disk of voter 2 was replaced.
    *("stopped 2 since 121s", "observer 2-new since 60s"),
    *("adding 4", "registers 9 since 100m", "observer 6 stopped 1400ms", "behind 6 500ms"),
    *("moving 3 c3:19093,INTERNAL://[fd00:0:0:0:0:0:0:3]:40123", "moving 4 c4:9093"),
    "certificates 1=9.5d",
    # Broker 101, which was in sync, went down; 103 is not registered.
    *("partitions orders 0,3 replicas 101,102,103", "change orders 0,3 since 66s isr 101", "fenced 101 since 62s"),
    "change orders 0 since 61s isr 102 leader 102 recovering yes",
    "change orders 3 since 45s isr 102 leader 102 recovering yes",
    *("unpolled 1s", "unread 2s"),
)
"""Voter 2's disk was replaced, voter 4 is being added, voter 3 moves; partitions of two topics are recovering."""

FIVE_VOTERS = (
    *("voters 5", "log 30m leader 5 epoch 9", "stopped 1 since 120s", "probe 3 name-not-found"),
    # Voter 2 appends nothing since the former epoch.
    *("stuck 2 since 40m", "never-caught-up 2 since 30m", "known 35m", "registers 4 at c4:19093"),
)
"""Voter 1 does not fetch, voter 2 lags, the name of 3 is lost and 4 has moved; 5 leads."""

JUST_ELECTED = (
    "log 3s leader 2 epoch 9 voters 1,2,3 granted 1,2",
    *("unknown-row 1 since 3s", "unknown-row 3 since 3s", "stalled 3001ms unknown"),
)
"""No follower has fetched from the new leader, which knows no high watermark yet."""

NOTHING_ANSWERED = ("unread always", "unpolled always", "probe 1,2,3 never", "unasked 1,2,3")

SITUATIONS: Mapping[str, Quorum] = {
    "the-sample-of-kip-595": situation(*KIP_595_SAMPLE),
    "in-the-middle-of-everything": situation(*IN_THE_MIDDLE_OF_EVERYTHING),
    "five-voters": situation(*FIVE_VOTERS),
    "just-elected": situation(*JUST_ELECTED),
    "leaderless": situation("probe 1,3 refused", "leaderless 2"),
    "static": situation("static", "probe 2 name-not-found"),
    "static-before-kafka-3.9": situation("static", "polled nodes none"),
    "not-observed": Machine(ClusterSettings(name="prod", bootstrap=("c1:9093",))).quorum(),
}
