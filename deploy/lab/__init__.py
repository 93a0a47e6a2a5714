"""A real Kafka quorum on loopback, as a library: it imports nothing else of this project."""
