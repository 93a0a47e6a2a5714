"""Kafka's timers, with the defaults of 4.3.1 in milliseconds."""

FETCH_TIMEOUT_MS, ELECTION_TIMEOUT_MS, BACKOFF_MAX_MS = 2_000, 1_000, 1_000
"""controller.quorum.fetch.timeout.ms, .election.timeout.ms and .election.backoff.max.ms."""
REQUEST_TIMEOUT_MS = 2_000
"""controller.quorum.request.timeout.ms."""
CHECK_QUORUM_MS = FETCH_TIMEOUT_MS * 3 // 2
"""A leader without a majority resigns after it."""
UPDATE_VOTER_MS = 3 * FETCH_TIMEOUT_MS
"""A voter that moved sends UpdateRaftVoter after it."""
OBSERVER_FORGOTTEN_MS = 300_000
"""A leader lists an observer for so long after its last fetch."""
NOOP_INTERVAL_MS = 500
"""metadata.max.idle.interval.ms: an idle leader commits a record this often."""
