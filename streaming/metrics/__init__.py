"""Measures: what /metrics tells, each with its name, its words and where its value comes from."""
