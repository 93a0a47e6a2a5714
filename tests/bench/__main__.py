"""`make bench`: measures decoding, replay, gathering, relays, quiet clusters and the idle job. Prints numbers only."""

import sys

from tests.bench import cluster_second_bench, decode_bench, fleet_bench, idle_bench, relay_bench, replay_bench

decode_bench.main([])
replay_bench.main()
fleet_bench.main([])
relay_bench.main([])
cluster_second_bench.main([])
sys.exit(idle_bench.main())
