"""What the job serves: health, and the pages and numbers of the fleet it watches. Read-only."""
