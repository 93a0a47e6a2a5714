"""`spark-submit --master URL kraftwatch_job.py --config FILE`: `kraftwatch run` on the master of spark-submit.

The driver's Python needs the wheel and deploy/requirements.txt; the executors' Python needs deploy/requirements.txt
only, because the job ships kraftwatch's packages. See docs/operations.md.
"""

import sys

from pyspark import SparkConf, SparkContext

from streaming.cli import main

if __name__ == "__main__":
    # This call connects to the JVM. Without it the SparkConf below would be a Python object without Spark's settings.
    SparkContext.setSystemProperty("spark.app.name", "kraftwatch")
    sys.argv[1:1] = ["run", "--master", SparkConf().get("spark.master", "local[2]")]
    main()
