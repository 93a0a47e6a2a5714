"""Delivery of alerts to sinks: no alert is lost, and a sink that can detect duplicates holds each alert once.

`dispatcher` writes every alert to the `ledger` first, then calls each sink, then records each sink's outcome in the
ledger. A crash therefore leaves an alert either pending, or delivered but not recorded as delivered. The second case
leads to a second delivery: `jsonl` detects it by reading its own file; the other sinks are notified at least once,
with a key by which duplicates can be recognised.
"""
