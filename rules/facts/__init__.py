"""What is known of a quorum now: of each node, and of the quorum; built bottom-up from what was observed."""
