"""A gate asks one question at a time: of two askers at the same moment the second is refused by the database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the constraint."""
    is_open = sa.text("state IN ('PENDING', 'APPROVED')")
    op.create_index(
        "uq_approvals_open", "approvals", ["command_id"], unique=True, sqlite_where=is_open, postgresql_where=is_open
    )
