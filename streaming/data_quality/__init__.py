"""Data quality: the data contracts, promises about every row that is recorded, decoded or sent, and their audit.

`contracts.yaml` has the contracts, and `contract` evaluates them with Great Expectations on the rows of `suite_rows`.
`audit` makes the rows from a journal and from sent alerts; it is also the process that `daily_audit` starts in the job.
`quarantine_report` explains undecodable rows.
"""
