"""The recorder and its journal: every observation, once, in order, on disk before anyone plans on it."""
