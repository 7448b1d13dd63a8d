"""When a person answered a question: what cannot be read back is judged by when they looked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the column."""
    op.add_column("reviews", sa.Column("answered_at_ms", sa.BigInteger(), nullable=True))
