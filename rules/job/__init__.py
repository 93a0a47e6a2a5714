"""The rules about the job itself, over a `JobState`: a file each, found by its name as those of `rules.checks` are."""
