"""What the host of one controller sees of the others: its own properties file, its dials, its disk and its clock."""
