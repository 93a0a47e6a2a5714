"""The outside world: Kafka's wire, the journal, sinks. Knows nothing of Spark."""
