"""The relay: observations on an ordinary Kafka topic, for a job that does not reach the controllers.

The relay runs beside the controllers. Its gatherer writes a journal, as the job's gatherer does; the `forwarder` sends
the journal's rows to the topic and marks what the topic has, by this relay or another one. After a crash it continues
there: rows may then be in the topic twice, and a reader skips those that are not above the newest one.

Of the relays of a cluster one writes (`written_clusters`). All of them read the topic (`topic_tail`).

A message (`relay_message`) is keyed by the cluster, so that the rows of a cluster are in one partition, in order.
"""
