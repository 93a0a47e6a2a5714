"""`make bench`: measures decoding, replay and the idle job. Prints numbers and asserts nothing."""

import sys

from tests.bench import decode_bench, idle_bench, replay_bench

decode_bench.main([])
replay_bench.main()
sys.exit(idle_bench.main())
