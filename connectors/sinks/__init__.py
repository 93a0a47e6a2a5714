"""Sinks: the contract (`sink`), one module for each kind, and the table that opens them (`sink_factory`)."""
