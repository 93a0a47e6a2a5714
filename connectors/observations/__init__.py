"""What is observed of a cluster: observations as they are stored, and the events they are decoded to."""
