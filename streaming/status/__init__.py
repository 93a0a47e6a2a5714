"""The state of a cluster's quorum, and how tables, the API and the page show it. No Spark."""
