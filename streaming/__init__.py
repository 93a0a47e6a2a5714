"""The engine: the only package that knows Spark."""
