"""What operators do is kept with their signatures; a ruling that was asked for without one is asked for again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add the column and the table."""
    op.add_column("reviews", sa.Column("signature", sa.Text(), nullable=True))
    op.create_table(
        "acts",
        sa.Column("act_id", sa.Text(), nullable=False),
        sa.Column("verb", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("act_id", name="pk_acts"),
    )
    op.create_index("ix_acts_at", "acts", ["at_ms"])
