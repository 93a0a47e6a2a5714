"""Events to a Quorum: pure."""
