"""One look for the person on call: gather for seconds, replay, judge once, and say it. No Spark, nothing written."""
