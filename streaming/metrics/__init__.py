"""Everything that /metrics exports, and the dead-man heartbeat."""
