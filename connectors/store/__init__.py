"""What must survive a kill or a power failure, in a database. Only this folder contains SQL."""
