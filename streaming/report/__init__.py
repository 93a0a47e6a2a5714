"""The report of an incident as one HTML file."""
