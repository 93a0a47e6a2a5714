"""The error that the lab raises."""


class LabError(Exception):
    """One sentence: the node, tool or file, what failed, and where to look or what to do."""
