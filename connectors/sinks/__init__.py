"""Where alerts are told."""
