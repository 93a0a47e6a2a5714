"""The doctor: what stands between this machine and a job that sees everything and tells it, and what mends it."""
