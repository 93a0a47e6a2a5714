"""The relay: observations on an ordinary Kafka topic, for a job that does not reach the controllers.

Its gatherer writes a journal, as the job's does; the `forwarder` sends the journal's rows to the topic. Of the relays
of a cluster one writes (`relayed_cluster`, `cluster_writer`), and all of them read the topic (`topic_tail`).
"""
