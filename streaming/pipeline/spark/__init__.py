"""What depends on how Spark and its Java work inside: session, files, workers, errors, and Spark's private names."""
