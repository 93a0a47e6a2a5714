"""`spark-submit --master URL kraftwatch_job.py --config FILE`: `kraftwatch run` on the master that was submitted to.

The Python of the driver has the wheel and deploy/requirements.txt, the executors' Python deploy/requirements.txt: our
own packages travel with the job. See docs/operations.md.
"""

import sys

from pyspark import SparkConf, SparkContext

from streaming.cli import main

if __name__ == "__main__":
    # Without a word to Java first, the configuration below would be Python's own, and empty.
    SparkContext.setSystemProperty("spark.app.name", "kraftwatch")
    sys.argv[1:1] = ["run", "--master", SparkConf().get("spark.master", "local[2]")]
    main()
