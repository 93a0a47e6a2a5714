"""Delivery of alerts to sinks: no alert is lost, and a sink that can detect duplicates holds each alert once.

A crash leaves an alert either pending, or delivered but not recorded as delivered. The second case leads to a second
delivery: `jsonl` detects it by reading its own file; other services can recognise duplicates by a key.
"""
