"""`python -m deploy.grafana` (`make goldens`): writes the dashboard."""

import sys
from pathlib import Path

from deploy.grafana.dashboard import FILE, text

if __name__ == "__main__":
    sys.exit(0 if (Path(__file__).parent / FILE).write_text(text(), encoding="utf-8") else 1)
