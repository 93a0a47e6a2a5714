"""A real KRaft quorum on loopback, as a library. Imports nothing of ours."""
