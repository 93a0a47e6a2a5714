"""What is true of a KRaft quorum, and is it well: pure, standard library only."""
