"""One rule a file: its id is the file's name with dashes. A new file here is a new rule."""
