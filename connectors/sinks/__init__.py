"""Where alerts are told: one contract (`sink`), a module for each kind, one place that opens them (`opening`)."""
