"""Journal, registry and outbox: the only SQL of the execution.

Above it: intake, orchestrator, recovery, relay, approvals, review and status. Below it: SQLite or PostgreSQL. `opening`
makes a `Store` (`writer`); `units` says what a commit writes; `registry`, `journal`, `outbox`, `authority`, `refusals`,
`artifacts` and `meta` are functions of a connection, for `Store.transact`, `Store.hot` and `Store.read`.
"""
