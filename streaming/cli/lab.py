"""`kraftwatch lab up|down`: a real local quorum to play with."""
