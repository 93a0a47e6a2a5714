"""What the job serves over HTTP: its health, the page, the API and /metrics."""
