"""What a process of kraftwatch needs of its machine: clocks, signals, memory, log lines and installed extras."""
