"""Facts about a quorum that several rules share."""
