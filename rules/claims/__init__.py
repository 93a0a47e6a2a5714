"""What is said of a quorum, as values: claims, and texts that carry them."""
