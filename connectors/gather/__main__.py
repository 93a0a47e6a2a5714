"""`python -m connectors.gather`."""

import sys

from connectors.gather.process import main

sys.exit(main(sys.stdin.buffer, sys.stdout))
