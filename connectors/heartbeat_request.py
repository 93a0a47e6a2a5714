"""The header of a heartbeat: the first job sends it, and a standby job accepts no heartbeat without it."""

HEARTBEAT_HEADER = "X-Kraftwatch-Heartbeat"
