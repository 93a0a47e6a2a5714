"""A real Kafka quorum on loopback, as a library: it imports no other package of this project."""
