"""What the remaining metadata log directories allow (KIP-1347): the most advanced one, and a new voter list."""
