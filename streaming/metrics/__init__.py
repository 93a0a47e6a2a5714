"""Everything that /metrics exports, its way by OTLP, and the dead-man heartbeat."""
