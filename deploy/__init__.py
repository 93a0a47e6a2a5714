"""What runs kraftwatch, and what it is tried on."""
