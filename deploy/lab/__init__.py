"""A real Kafka quorum on loopback, as a library: it imports no other package of this project.

Whatever fails raises LabError.
"""


class LabError(Exception):
    """One sentence: the node, tool or file, what failed, and where to look or what to do."""
