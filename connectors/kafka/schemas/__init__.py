"""Message descriptions that kafka-python lacks, in Kafka's own schema language."""
