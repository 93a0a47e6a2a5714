"""The demo: a real quorum hurt and healed, scene by scene, watched by the real job."""
