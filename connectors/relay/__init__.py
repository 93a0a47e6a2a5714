"""The relay: observations on an ordinary Kafka topic, for a job that does not reach the controllers.

The relay runs beside the controllers. Its gatherer writes a journal, as the job's gatherer does; the `forwarder` sends
the journal's rows to the topic and marks what the brokers have acknowledged. After a crash it continues there: rows may
then be in the topic twice, with the same sequence, so that a reader skips them.

A message (`relay_message`) is keyed by the cluster, so that the rows of a cluster are in one partition, in order.
"""
