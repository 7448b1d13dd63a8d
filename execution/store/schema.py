"""The tables, for SQLite and PostgreSQL alike.

Theory of operation. `events` is the journal and never changes; `commands` is the registry, a projection of the journal
written in the same transaction. Beside them stand the rows that a fence reads (`authority`, `restrictions`, `grants`,
`approvals`), the watch list (`attempts`), what people are asked (`reviews`), and the outbox. Times are integer Unix
milliseconds, enums their stored names, JSON is text. Columns of a table that maps a dataclass are in the order of its
fields (`rows` asserts it).
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

from execution.store.columns import COUNTER
from execution.store.columns import millis as _ms
from execution.store.columns import number as _int
from execution.store.columns import optional as _maybe
from execution.store.columns import required as _text
from execution.store.columns import where as _where

METADATA: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


COMMANDS: Final = Table(
    "commands",
    METADATA,
    Column("command_id", Text, primary_key=True),
    Column("root_id", Text, ForeignKey("commands.command_id"), nullable=False),
    _maybe("parent_id"),
    _int("position"),
    _text("kind"),
    _text("object_kind"),
    _text("object_id"),
    _int("object_version"),
    _text("workflow_id"),
    _text("saga_id"),
    _text("tenant"),
    _text("site"),
    _text("decision_id"),
    _text("capability_id"),
    _text("principal"),
    _text("command_type"),
    _int("definition_version"),
    _text("effect_class"),
    _text("target_system"),
    _text("target_resource"),
    _maybe("expected_version"),
    _text("idempotency_key"),
    _text("request_fingerprint"),
    _maybe("payload_ref"),
    _text("params"),
    _text("state"),
    _maybe("phase"),
    _int("attempt_count"),
    _int("claim_count"),
    _int("look_count"),
    _int("created_at_ms"),
    _ms("started_at_ms"),
    _ms("last_attempt_at_ms"),
    _ms("completed_at_ms"),
    _ms("deadline_at_ms"),
    _ms("not_before_ms"),
    _maybe("external_resource_id"),
    _maybe("external_version"),
    _maybe("result_reference"),
    _maybe("receipt"),
    _ms("verified_at_ms"),
    _maybe("error_class"),
    _maybe("error_code"),
    _ms("next_retry_at_ms"),
    _maybe("lease_owner"),
    _int("lease_epoch"),
    _ms("lease_until_ms"),
    _maybe("compensates"),
    _maybe("compensation_command"),
    _text("compensation_state"),
    Column("human_review_required", Boolean, nullable=False),
    _ms("next_check_at_ms"),
    _text("blockers"),
    _maybe("ending"),
    _maybe("repeat_of"),
    _text("generation"),
    _text("correlation_id"),
    _maybe("trace_id"),
    _int("version"),
    _int("chain_seq"),
    _text("chain_head"),
    UniqueConstraint("tenant", "idempotency_key"),
    UniqueConstraint("root_id", "position"),
    Index("ix_commands_due", "next_check_at_ms", **_where("parent_id IS NULL AND next_check_at_ms IS NOT NULL")),
    Index("ix_commands_root_state", "tenant", "state", "created_at_ms", **_where("parent_id IS NULL")),
    Index("ix_commands_workflow", "tenant", "workflow_id", **_where("parent_id IS NULL")),
    Index("ix_commands_decision", "tenant", "decision_id", **_where("parent_id IS NULL")),
    Index("ix_commands_principal", "tenant", "principal", "created_at_ms", **_where("parent_id IS NULL")),
    Index("ix_commands_recent", "tenant", "created_at_ms", "command_id", **_where("parent_id IS NULL")),
    Index(
        "ix_commands_message",
        "target_system",
        "external_resource_id",
        **_where("effect_class = 'IRREVERSIBLE' AND external_resource_id IS NOT NULL"),
    ),
)

EVENTS: Final = Table(
    "events",
    METADATA,
    Column("position", COUNTER, primary_key=True, autoincrement=True),
    Column("command_id", Text, ForeignKey("commands.command_id"), nullable=False),
    _int("seq"),
    _text("type"),
    _text("actor"),
    _int("at_ms"),
    _text("body"),
    _text("prev_hash"),
    _text("hash"),
    UniqueConstraint("command_id", "seq"),
)

ATTEMPTS: Final = Table(
    "attempts",
    METADATA,
    Column("attempt_id", Text, primary_key=True),
    Column("command_id", Text, ForeignKey("commands.command_id"), nullable=False),
    Column("root_id", Text, nullable=False, index=True),
    _int("number"),
    _text("idempotency_key"),
    _text("resource"),
    _text("cause"),
    _int("lease_epoch"),
    _text("request_digest"),
    Column("deadline_s", Float, nullable=False),
    _int("fenced_at_ms"),
    _text("terms"),
    Column("quiescent_after_s", Float),
    _text("incarnation"),
    _text("settlement"),
    _ms("settled_at_ms"),
    _maybe("code"),
    _maybe("receipt"),
    Column("sent_late", Boolean, nullable=False),
    UniqueConstraint("command_id", "number"),
    Index("ix_attempts_open", "resource", **_where("settlement = 'OPEN'")),
)

APPROVALS: Final = Table(
    "approvals",
    METADATA,
    Column("approval_id", Text, primary_key=True),
    Column("root_id", Text, ForeignKey("commands.command_id"), nullable=False, index=True),
    _text("command_id"),
    _text("content_hash"),
    _text("request_digest"),
    _text("subject"),
    _text("state"),
    _int("requested_at_ms"),
    _int("expires_at_ms"),
    _ms("decided_at_ms"),
    _maybe("decided_by"),
    _maybe("signature"),
    _maybe("reason"),
    Index("ix_approvals_pending", "expires_at_ms", **_where("state = 'PENDING'")),
    Index("uq_approvals_open", "command_id", unique=True, **_where("state IN ('PENDING', 'APPROVED')")),
)

REVIEWS: Final = Table(
    "reviews",
    METADATA,
    Column("review_id", Text, primary_key=True),
    Column("root_id", Text, ForeignKey("commands.command_id"), nullable=False, index=True),
    _text("command_id"),
    _text("kind"),
    _text("facts"),
    _text("verdicts"),
    _int("opened_at_ms"),
    _text("owner"),
    _ms("closed_at_ms"),
    _maybe("closed_by"),
    _maybe("verdict"),
    _maybe("reason"),
    _ms("answered_at_ms"),
    _maybe("signature"),
    Index("ix_reviews_open", "opened_at_ms", **_where("closed_at_ms IS NULL")),
)

OUTBOX: Final = Table(
    "outbox",
    METADATA,
    Column("outbox_id", COUNTER, primary_key=True, autoincrement=True),
    _text("topic"),
    Column("root_id", Text, ForeignKey("commands.command_id"), nullable=False),
    _ms("sent_at_ms"),
    Index("ix_outbox_unsent", "outbox_id", **_where("sent_at_ms IS NULL")),
)

LOCKS: Final = Table(
    "locks",
    METADATA,
    Column("tenant", Text),
    Column("resource", Text),
    Column("owner", Text, ForeignKey("commands.command_id"), nullable=False, index=True),
    PrimaryKeyConstraint("tenant", "resource"),
)

GRANTS: Final = Table(
    "grants",
    METADATA,
    Column("root_id", Text, ForeignKey("commands.command_id"), primary_key=True),
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
    _int("grant_until_ms"),
    Column("operator", Boolean, nullable=False),
    _int("created_at_ms"),
)

TOKEN_USES: Final = Table(
    "token_uses",
    METADATA,
    Column("iss", Text),
    Column("jti", Text),
    _int("used"),
    _int("max_uses"),
    _text("tenant"),
    _int("first_use_at_ms"),
    _int("last_use_at_ms"),
    PrimaryKeyConstraint("iss", "jti"),
)

RESTRICTIONS: Final = Table(
    "restrictions",
    METADATA,
    Column("scope", Text, primary_key=True),
    _text("kind"),
    _text("reason"),
    _text("by"),
    _int("since_ms"),
)

AUTHORITY: Final = Table(
    "authority",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _int("revision"),
    CheckConstraint("id = 1", name="one_row"),
)

DECISIONS: Final = Table(
    "decisions",
    METADATA,
    Column("decision_id", Text, primary_key=True),
    _text("tenant"),
    _text("opened_by"),
    _text("intents"),
    _text("resources"),
    _text("evidence"),
    _text("risk_class"),
    _text("policy_hash"),
    _text("outcome"),
    _int("opened_at_ms"),
    _int("valid_until_ms"),
    _int("tokens_max"),
    _int("tokens_issued"),
    _int("uses_max"),
    _int("uses"),
    _ms("closed_at_ms"),
    _maybe("closed_by"),
    Index("ix_decisions_opened", "tenant", "opened_at_ms"),
)

ACTS: Final = Table(
    "acts",
    METADATA,
    Column("act_id", Text, primary_key=True),
    *map(_text, ("verb", "subject", "by", "what", "signature")),
    _int("at_ms"),
    Index("ix_acts_at", "at_ms"),
)

PAUSES: Final = Table(
    "pauses",
    METADATA,
    Column("system", Text, primary_key=True),
    _text("code"),
    _int("until_ms"),
)

RELEASES: Final = Table(
    "releases",
    METADATA,
    Column("tenant", Text),
    Column("site", Text),
    _int("last_ms"),
    PrimaryKeyConstraint("tenant", "site"),
)

ROUNDS: Final = Table(
    "rounds",
    METADATA,
    Column("name", Text, primary_key=True),
    _int("began_ms"),
    _ms("ended_ms"),
    _text("result"),
)

INBOX: Final = Table(
    "inbox",
    METADATA,
    Column("inbox_id", COUNTER, primary_key=True, autoincrement=True),
    _text("tenant"),
    _text("source"),
    _text("delivery_id"),
    _text("digest"),
    _text("says"),
    _text("code"),
    _text("system"),
    _text("resource_id"),
    _maybe("command_id"),
    _maybe("root_id"),
    _text("outcome"),
    _maybe("review_id"),
    _int("received_at_ms"),
    UniqueConstraint("source", "delivery_id"),
)

REFUSALS: Final = Table(
    "refusals",
    METADATA,
    Column("refusal_id", COUNTER, primary_key=True, autoincrement=True),
    _text("tenant"),
    _text("who"),
    _text("intent"),
    _text("target"),
    _text("code"),
    _int("at_ms"),
    Index("ix_refusals_at", "at_ms"),
)

ARTIFACTS: Final = Table(
    "artifacts",
    METADATA,
    Column("sha256", Text, primary_key=True),
    Column("content", LargeBinary),
    _int("size"),
    _text("media_type"),
    _int("created_at_ms"),
    _ms("erased_at_ms"),
)

ARTIFACT_NAMES: Final = Table(
    "artifact_names",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("sha256", Text, ForeignKey("artifacts.sha256"), nullable=False),
    _int("created_at_ms"),
)

STORE_META: Final = Table(
    "store_meta",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    _text("installation"),
    _text("incarnation"),
    _int("incarnated_at_ms"),
    _int("created_at_ms"),
    _int("clock_high_ms"),
    _text("witness"),
    CheckConstraint("id = 1", name="one_row"),
)
