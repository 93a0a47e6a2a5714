"""The values that rules evaluate: a KRaft quorum, its recent history, and how well the monitor observes it."""
