"""The dashboard for Grafana: `make goldens` writes kraftwatch.json, which is imported as it is."""
