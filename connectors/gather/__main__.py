"""`python -m connectors.gather`."""

import os
import sys

from connectors.gather.gatherer import main

code = main(sys.stdin.buffer, sys.stdout)
sys.stderr.flush()
# Not by way of the interpreter's end: it aborts, memory dumped and all, when a thread still reads the leash, and
# waits for one that asks a dead name server. Everything was closed and flushed by `main`.
os._exit(code)
