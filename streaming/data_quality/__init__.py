"""The data contracts: promises about every row that is recorded, decoded, replayed or sent, and their audit.

`contract` defines what a contract is. `observation_contracts`, `event_contracts`, `state_contracts` and
`alert_contracts` each define a table and the contracts of its columns. `expectations` evaluates them with Great
Expectations. `audit` evaluates a journal, `audit_process` its newest rows in a separate process, and `audit_scheduler`
starts that process regularly.

Only `great_expectations_import` imports Great Expectations, for `expectations` and `data_docs`: the import takes
seconds and 250 MB, and no batch waits for it.
"""
