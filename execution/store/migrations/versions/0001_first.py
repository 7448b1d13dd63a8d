"""The first schema.

Written out, not taken from the declared tables: those move on, and this must not.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create everything."""
    _commands()
    _events()
    _attempts()
    _approvals()
    _reviews()
    _outbox()
    _locks()
    _grants()
    _token_uses()
    _restrictions()
    _authority()
    _decisions()
    _refusals()
    _artifacts()
    _artifact_names()
    _store_meta()
    authority = sa.table("authority", sa.column("id"), sa.column("revision"), sa.column("policy_hash"))
    op.bulk_insert(authority, [{"id": 1, "revision": 0, "policy_hash": ""}])


def _text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _number(name: str, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _identity_columns() -> list[sa.Column[Any]]:
    return [
        _text("command_id"),
        _text("root_id"),
        _text("parent_id", nullable=True),
        _number("position"),
        _text("kind"),
        _text("object_kind"),
        _text("object_id"),
        _number("object_version"),
        _text("workflow_id"),
        _text("saga_id"),
        _text("tenant"),
        _text("site"),
        _text("decision_id"),
        _text("capability_id"),
        _text("principal"),
        _text("command_type"),
        _number("definition_version"),
        _text("effect_class"),
        _text("target_system"),
        _text("target_resource"),
        _text("expected_version", nullable=True),
        _text("idempotency_key"),
        _text("request_fingerprint"),
        _text("payload_ref", nullable=True),
        _text("params"),
    ]


def _standing_columns() -> list[sa.Column[Any]]:
    return [
        _text("state"),
        _text("phase", nullable=True),
        _number("attempt_count"),
        _number("claim_count"),
        _number("look_count"),
        _number("created_at_ms"),
        _number("started_at_ms", nullable=True),
        _number("last_attempt_at_ms", nullable=True),
        _number("completed_at_ms", nullable=True),
        _number("deadline_at_ms", nullable=True),
        _number("not_before_ms", nullable=True),
        _text("external_resource_id", nullable=True),
        _text("external_version", nullable=True),
        _text("result_reference", nullable=True),
        _text("receipt", nullable=True),
        _number("verified_at_ms", nullable=True),
        _text("error_class", nullable=True),
        _text("error_code", nullable=True),
        _number("next_retry_at_ms", nullable=True),
        _text("lease_owner", nullable=True),
        _number("lease_epoch"),
        _number("lease_until_ms", nullable=True),
        _text("compensates", nullable=True),
        _text("compensation_command", nullable=True),
        _text("compensation_state"),
        sa.Column("human_review_required", sa.Boolean(), nullable=False),
        _number("next_check_at_ms", nullable=True),
        _text("blockers"),
        _text("ending", nullable=True),
        _text("repeat_of", nullable=True),
        _text("generation"),
        _text("correlation_id"),
        _text("trace_id", nullable=True),
        _number("version"),
        _number("chain_seq"),
        _text("chain_head"),
    ]


def _commands() -> None:
    op.create_table(
        "commands",
        *_identity_columns(),
        *_standing_columns(),
        sa.ForeignKeyConstraint(["root_id"], ["commands.command_id"], name="fk_commands_root_id_commands"),
        sa.PrimaryKeyConstraint("command_id", name="pk_commands"),
        sa.UniqueConstraint("root_id", "position", name="uq_commands_root_id_position"),
        sa.UniqueConstraint("tenant", "idempotency_key", name="uq_commands_tenant_idempotency_key"),
    )
    _index("ix_commands_decision", "commands", ["tenant", "decision_id"], "parent_id IS NULL")
    _index("ix_commands_due", "commands", ["next_check_at_ms"], "parent_id IS NULL AND next_check_at_ms IS NOT NULL")
    _index("ix_commands_principal", "commands", ["tenant", "principal", "created_at_ms"], "parent_id IS NULL")
    _index("ix_commands_recent", "commands", ["tenant", "created_at_ms", "command_id"], "parent_id IS NULL")
    _index("ix_commands_root_state", "commands", ["tenant", "state", "created_at_ms"], "parent_id IS NULL")
    _index("ix_commands_workflow", "commands", ["tenant", "workflow_id"], "parent_id IS NULL")


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        _text("command_id"),
        _number("seq"),
        _text("type"),
        _text("actor"),
        _number("at_ms"),
        _text("body"),
        _text("prev_hash"),
        _text("hash"),
        sa.ForeignKeyConstraint(["command_id"], ["commands.command_id"], name="fk_events_command_id_commands"),
        sa.PrimaryKeyConstraint("position", name="pk_events"),
        sa.UniqueConstraint("command_id", "seq", name="uq_events_command_id_seq"),
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        _text("attempt_id"),
        _text("command_id"),
        _text("root_id"),
        _number("number"),
        _text("idempotency_key"),
        _text("resource"),
        _text("cause"),
        _number("lease_epoch"),
        _text("request_digest"),
        sa.Column("deadline_s", sa.Float(), nullable=False),
        _number("fenced_at_ms"),
        _text("terms"),
        sa.Column("quiescent_after_s", sa.Float(), nullable=True),
        _text("incarnation"),
        _text("settlement"),
        _number("settled_at_ms", nullable=True),
        _text("code", nullable=True),
        _text("receipt", nullable=True),
        sa.Column("sent_late", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["command_id"], ["commands.command_id"], name="fk_attempts_command_id_commands"),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_attempts"),
        sa.UniqueConstraint("command_id", "number", name="uq_attempts_command_id_number"),
    )
    _index("ix_attempts_open", "attempts", ["resource"], "settlement = 'OPEN'")
    op.create_index("ix_attempts_root_id", "attempts", ["root_id"])


def _approvals() -> None:
    op.create_table(
        "approvals",
        _text("approval_id"),
        _text("root_id"),
        _text("command_id"),
        _text("content_hash"),
        _text("request_digest"),
        _text("subject"),
        _text("state"),
        _number("requested_at_ms"),
        _number("expires_at_ms"),
        _number("decided_at_ms", nullable=True),
        _text("decided_by", nullable=True),
        _text("signature", nullable=True),
        _text("reason", nullable=True),
        sa.ForeignKeyConstraint(["root_id"], ["commands.command_id"], name="fk_approvals_root_id_commands"),
        sa.PrimaryKeyConstraint("approval_id", name="pk_approvals"),
    )
    _index("ix_approvals_pending", "approvals", ["expires_at_ms"], "state = 'PENDING'")
    op.create_index("ix_approvals_root_id", "approvals", ["root_id"])


def _reviews() -> None:
    op.create_table(
        "reviews",
        _text("review_id"),
        _text("root_id"),
        _text("command_id"),
        _text("kind"),
        _text("facts"),
        _text("verdicts"),
        _number("opened_at_ms"),
        _text("owner"),
        _number("closed_at_ms", nullable=True),
        _text("closed_by", nullable=True),
        _text("verdict", nullable=True),
        _text("reason", nullable=True),
        sa.ForeignKeyConstraint(["root_id"], ["commands.command_id"], name="fk_reviews_root_id_commands"),
        sa.PrimaryKeyConstraint("review_id", name="pk_reviews"),
    )
    _index("ix_reviews_open", "reviews", ["opened_at_ms"], "closed_at_ms IS NULL")
    op.create_index("ix_reviews_root_id", "reviews", ["root_id"])
    # ### end Alembic commands ###


def _outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column(
            "outbox_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        _text("topic"),
        _text("root_id"),
        _number("sent_at_ms", nullable=True),
        sa.ForeignKeyConstraint(["root_id"], ["commands.command_id"], name="fk_outbox_root_id_commands"),
        sa.PrimaryKeyConstraint("outbox_id", name="pk_outbox"),
    )
    _index("ix_outbox_unsent", "outbox", ["outbox_id"], "sent_at_ms IS NULL")


def _locks() -> None:
    op.create_table(
        "locks",
        _text("tenant"),
        _text("resource"),
        _text("owner"),
        sa.ForeignKeyConstraint(["owner"], ["commands.command_id"], name="fk_locks_owner_commands"),
        sa.PrimaryKeyConstraint("tenant", "resource", name="pk_locks"),
    )
    op.create_index("ix_locks_owner", "locks", ["owner"])


def _grants() -> None:
    op.create_table(
        "grants",
        _text("root_id"),
        _text("iss"),
        _text("jti"),
        _text("kid"),
        _text("sub"),
        _text("client_id"),
        _text("decision_id"),
        _text("tenant"),
        _text("details"),
        _text("details_hash"),
        _text("policy_hash"),
        _number("grant_until_ms"),
        sa.Column("operator", sa.Boolean(), nullable=False),
        _number("created_at_ms"),
        sa.ForeignKeyConstraint(["root_id"], ["commands.command_id"], name="fk_grants_root_id_commands"),
        sa.PrimaryKeyConstraint("root_id", name="pk_grants"),
    )


def _token_uses() -> None:
    op.create_table(
        "token_uses",
        _text("iss"),
        _text("jti"),
        _number("used"),
        _number("max_uses"),
        _text("tenant"),
        _number("first_use_at_ms"),
        _number("last_use_at_ms"),
        sa.PrimaryKeyConstraint("iss", "jti", name="pk_token_uses"),
    )


def _restrictions() -> None:
    op.create_table(
        "restrictions",
        _text("scope"),
        _text("kind"),
        _text("reason"),
        _text("by"),
        _number("since_ms"),
        sa.PrimaryKeyConstraint("scope", name="pk_restrictions"),
    )


def _authority() -> None:
    op.create_table(
        "authority",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        _number("revision"),
        _text("policy_hash"),
        sa.CheckConstraint("id = 1", name=op.f("ck_authority_one_row")),
        sa.PrimaryKeyConstraint("id", name="pk_authority"),
    )


def _decisions() -> None:
    op.create_table(
        "decisions",
        _text("decision_id"),
        _text("tenant"),
        _text("opened_by"),
        _text("intents"),
        _text("resources"),
        _text("evidence"),
        _text("risk_class"),
        _text("policy_hash"),
        _text("outcome"),
        _number("opened_at_ms"),
        _number("valid_until_ms"),
        _number("tokens_max"),
        _number("tokens_issued"),
        _number("uses_max"),
        _number("uses"),
        _number("closed_at_ms", nullable=True),
        _text("closed_by", nullable=True),
        sa.PrimaryKeyConstraint("decision_id", name="pk_decisions"),
    )
    op.create_index("ix_decisions_opened", "decisions", ["tenant", "opened_at_ms"])


def _refusals() -> None:
    op.create_table(
        "refusals",
        sa.Column(
            "refusal_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        _text("tenant"),
        _text("who"),
        _text("intent"),
        _text("target"),
        _text("code"),
        _number("at_ms"),
        sa.PrimaryKeyConstraint("refusal_id", name="pk_refusals"),
    )
    op.create_index("ix_refusals_at", "refusals", ["at_ms"])


def _artifacts() -> None:
    op.create_table(
        "artifacts",
        _text("sha256"),
        sa.Column("content", sa.LargeBinary(), nullable=True),
        _number("size"),
        _text("media_type"),
        _number("created_at_ms"),
        _number("erased_at_ms", nullable=True),
        sa.PrimaryKeyConstraint("sha256", name="pk_artifacts"),
    )


def _artifact_names() -> None:
    op.create_table(
        "artifact_names",
        _text("name"),
        _text("sha256"),
        _number("created_at_ms"),
        sa.ForeignKeyConstraint(["sha256"], ["artifacts.sha256"], name="fk_artifact_names_sha256_artifacts"),
        sa.PrimaryKeyConstraint("name", name="pk_artifact_names"),
    )


def _store_meta() -> None:
    op.create_table(
        "store_meta",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        _text("installation"),
        _text("incarnation"),
        _number("incarnated_at_ms"),
        _number("created_at_ms"),
        _number("clock_high_ms"),
        _text("witness"),
        sa.CheckConstraint("id = 1", name=op.f("ck_store_meta_one_row")),
        sa.PrimaryKeyConstraint("id", name="pk_store_meta"),
    )
