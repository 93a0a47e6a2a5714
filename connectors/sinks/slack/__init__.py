"""Slack: the keys of its sink, what is sent, how a message looks, and the buttons in it."""
