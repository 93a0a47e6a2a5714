"""What goes wrong in the lab, said in one sentence."""


class LabError(Exception):
    """One sentence naming the node, tool or file, what happened, and where to look or what to do."""
