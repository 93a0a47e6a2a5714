"""The data flow: source, decode, processor, deliver, as one Spark streaming query."""
