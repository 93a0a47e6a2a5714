"""Data quality: the data contracts, promises about every row that is recorded, decoded or sent, and their audit.

`contracts.yaml` has the contracts, and `contract` evaluates them with Great Expectations on the tables of
`observation_table`, `event_table` and `alert_table`. `audit` fills the tables from a journal and from sent alerts;
`sample_audit` is the process that `daily_audit` starts in the job. `quarantine_report` explains undecodable rows.
"""
