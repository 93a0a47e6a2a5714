"""The Grafana dashboard: `make goldens` writes kraftwatch.json, which Grafana imports."""
