"""Replay: events of one cluster, in order, become a `rules.quorum.Quorum`. Pure: time is an input."""
