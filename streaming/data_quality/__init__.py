"""Data quality: the data contracts, promises about every row that is recorded, decoded or sent, and their audit.

`contracts.yaml` has the contracts; `audit` evaluates them with Great Expectations on what `suite_rows` makes of a
journal and of sent alerts. `quarantine_report` explains undecodable rows.
"""
