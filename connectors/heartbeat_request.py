"""The header of a heartbeat: the first job sends it, and a standby job accepts no heartbeat without it."""

HEARTBEAT_HEADER = "X-Kraftwatch-Heartbeat"
HEALTHY, STARTING = "ok", "starting"
"""Its values: batches complete; or Spark is not up yet, and only the rules that need no history are evaluated."""
