"""Replay: events of one cluster, in order, become a `rules.model.quorum.Quorum`. Pure: time is an input."""
