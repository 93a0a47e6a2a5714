"""The migrations, oldest first by number. One that is released never changes."""
