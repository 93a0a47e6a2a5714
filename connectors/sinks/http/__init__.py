"""HTTP for all sinks that use it: one request with a deadline, and the outcome of its response."""
