"""PagerDuty: the keys of its sink, what is sent, and who acknowledges there."""
