"""Bytes of `__cluster_metadata` to records and events: pure."""
