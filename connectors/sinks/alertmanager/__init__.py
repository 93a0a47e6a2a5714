"""Alertmanager: the keys of its sink, what is sent, its clock, what it lists, and what people silence there."""
