"""Facts from outside, each delivery once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table, and a way to find a message by what its system calls it."""
    counter = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "inbox",
        sa.Column("inbox_id", counter, autoincrement=True, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("says", sa.Text(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("system", sa.Text(), nullable=False),
        sa.Column("resource_id", sa.Text(), nullable=False),
        sa.Column("command_id", sa.Text(), nullable=True),
        sa.Column("root_id", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("review_id", sa.Text(), nullable=True),
        sa.Column("received_at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("inbox_id", name="pk_inbox"),
        sa.UniqueConstraint("source", "delivery_id", name="uq_inbox_source_delivery_id"),
    )
    named = sa.text("effect_class = 'IRREVERSIBLE' AND external_resource_id IS NOT NULL")
    columns = ["target_system", "external_resource_id"]
    op.create_index("ix_commands_message", "commands", columns, sqlite_where=named, postgresql_where=named)
