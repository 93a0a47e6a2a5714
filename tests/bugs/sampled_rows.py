"""`python -m tests.bugs.sampled_rows SEED`: a hundred rows of the KIPs, drawn from those that a test cites.

The product is broken at each row, without a look at the tests; what they did not notice is listed in this folder.
"""

import random
import sys

from tests.kips.__main__ import HERE, cited

ROWS = 100


def sampled_rows(seed: int) -> list[str]:
    """Returns the numbers of the rows, sorted: the same ones for a seed, as long as the same rows are cited."""
    tested = {number for path in HERE.parent.rglob("test_*.py") for number in cited(path.read_text())}
    return sorted(random.Random(seed).sample(sorted(tested), ROWS))


if __name__ == "__main__":
    sys.stdout.write("\n".join([*sampled_rows(int(sys.argv[1])), ""]))
