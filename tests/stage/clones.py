"""Many sagas like one: its rows are copied under names of their own, as if so many had been accepted."""

import sqlalchemy as sa

from execution.store import schema
from execution.store.connection import Connection

TABLES = (schema.COMMANDS, schema.ATTEMPTS, schema.GRANTS)


def clone(conn: Connection, root_id: str, count: int) -> list[str]:
    """The ids of the new roots. The copies are as far as the original is, with its open attempts and its grant."""
    originals = {table: _rows(conn, table, root_id) for table in TABLES}
    commands = originals[schema.COMMANDS]
    named = {row["command_id"] for row in commands} | {row["idempotency_key"] for row in commands}
    named |= {row["attempt_id"] for row in originals[schema.ATTEMPTS]}
    for table, rows in originals.items():
        copies = [
            {name: f"{value}-{n}" if value in named else value for name, value in row.items()}
            for n in range(count)
            for row in rows
        ]
        if copies:
            conn.execute(table.insert(), copies)
    return [f"{root_id}-{n}" for n in range(count)]


def _rows(conn: Connection, table: sa.Table, root_id: str) -> list[dict[str, object]]:
    return [dict(row) for row in conn.execute(table.select().where(table.c.root_id == root_id)).mappings()]
