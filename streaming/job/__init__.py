"""The long-running process: start-up, the gatherer process, reload, signals and logging."""
