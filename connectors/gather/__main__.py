"""`python -m connectors.gather`."""

import os
import sys

from connectors.gather.gatherer import main

code = main(sys.stdin.buffer, sys.stdout)
sys.stderr.flush()
# os._exit skips the interpreter's shutdown, which aborts with a core dump while a thread still reads stdin and waits
# for a thread that queries a name server without answer. `main` has closed and flushed everything.
os._exit(code)
