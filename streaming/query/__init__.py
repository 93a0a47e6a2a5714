"""Where a cluster's state comes from without Spark: its nodes asked for some seconds, a journal, a topic or a disk."""
