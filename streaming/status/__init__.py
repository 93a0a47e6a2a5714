"""The state of a cluster's quorum, queried for some seconds or read from a journal or a disk. No Spark."""
