"""What the surviving metadata log directories allow (KIP-1347): the most complete one, and a new voter list."""
