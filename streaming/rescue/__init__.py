"""The rescue of a quorum whose recorded voter endpoints no longer reach the voters (KIP-1347)."""
