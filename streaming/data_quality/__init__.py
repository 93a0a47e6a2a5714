"""The data contracts: what every row that is recorded, decoded, replayed or told must be, and whether it is.

`contract` says what a contract is; `observations`, `events`, `states` and `alerts` each hold a table and the contracts
over its columns; `expectations` is Great Expectations, which holds the tables against the contracts; `audit` runs them
over a journal, `sample` over its newest rows in a process of its own, `sampler` starts that now and then.

Only `library` imports Great Expectations, for `expectations` and `docs`: it takes seconds and 250 MB, and no batch
waits for it.
"""
