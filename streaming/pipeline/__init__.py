"""The data flow: source, decode, step, deliver, as one Spark streaming query."""
