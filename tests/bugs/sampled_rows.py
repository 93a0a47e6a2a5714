"""`python -m tests.bugs.sampled_rows SEED`: a hundred rows of the KIPs, drawn from those that a test cites.

The lists `in_kip_..._rows` have the bugs for seed 22. For seeds 53 and 84, for the rows that were left, and for seed
115 and a third of seed 146 (with other bugs than before) they have those that no test of their row noticed at first.

A row may be wrong in several ways. The lists `in_kip_..._statements` are for seed 177, with two or three ways for
each row in which the product would be wrong about just what the row states; for the rows of seed 208 that were not in
it; for 40 rows of seed 239 and for the rows that were left, with one way each. `in_kip_sample_...` are for 30 to 60
rows of the seed in the name, those of 491, 523 and 557 for all of their rows, with one way each in which what
the row states is plainly broken or absent; `in_kip_left_rows` is for the rows that none of 491, 523 and 557 drew.
Again those that were not noticed at first. For seed 619 the breaks were chosen without a look at the tests,
even if the same break had been tried before: 7 of 99 were not noticed, and 16 of the 237 other rows that can be broken.
For seed 653, after that, 5 of 99, one of them noticed by a long test. Then each of the 340 rows was broken in a second
place: 66 times no test that cites the row noticed it, 7 times no test at all (`in_kip_second_places`). For seed 677,
after that, 5 of 98, which other tests noticed.
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
