"""The state of a KRaft quorum and the rules that evaluate it: pure, standard library only."""
