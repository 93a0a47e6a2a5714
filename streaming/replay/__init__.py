"""Replay: the events of one cluster, in order, build a `rules.model.quorum.Quorum`. Pure: time is an input."""
