"""What all sinks that speak HTTP share: one request, its end when its time is up, and what its answer comes to."""
