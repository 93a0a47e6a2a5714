"""Sinks: the contract (`sink`), one module for each kind, and the register of all kinds (`sink_entry`)."""
