"""Kafka client: connection, login, requests and error classification. It sends no request that writes."""
