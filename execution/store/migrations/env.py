"""Runs migrations on the connection that `migrate` hands over; there is no other way in."""

from __future__ import annotations

from alembic import context

from execution.store.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_as_batch=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
