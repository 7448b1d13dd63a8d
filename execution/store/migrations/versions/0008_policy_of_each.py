"""What a command was judged by is kept with its grant; there is no policy of the whole journal."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Drop the column that nothing ever wrote."""
    op.drop_column("authority", "policy_hash")
