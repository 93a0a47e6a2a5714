"""The rescue of a quorum whose voters' endpoints no longer reach them (KIP-1347)."""
