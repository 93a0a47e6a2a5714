"""Gather: Kafka's wire, read and never written."""
