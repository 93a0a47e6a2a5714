"""Converts the bytes of `__cluster_metadata` to records and events. Pure: no clock, no I/O."""
