"""What the gateway hands to intake, and what intake answers.

Form, token and scope were checked by the gateway; policy, freeze, idempotency and version rules are judged in the
acceptance transaction, from our own database alone, so that a proposal is acknowledged whatever the backends do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

NOBODY: Final = "nobody"
"""Who is waited for when a worker, a time or another command ends the wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Bytes that an argument names: how many they are, and the first of them."""

    sha256: str
    size: int
    head: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """An intent in normal form.

    arguments: everything that means something, JSON values only; it enters the fingerprint, so volatile fields
    (`wait_seconds`, `preview`, `repeat_of`) are not in it and content stands in it as `content_sha256`. content: the
    bytes themselves when they came along (else `payload_ref` names bytes that are already stored). stored: what intake
    found under arguments that name other stored bytes, by argument. generation: of the effect that it is about, where
    that is a deliberate repetition. reason: why an operator proposes it; it stands in
    the journal.
    """

    intent: str
    site: str
    object_id: str
    version: int
    arguments: Mapping[str, Any]
    content: bytes | None = None
    content_media_type: str = "text/markdown"
    payload_ref: str | None = None
    stored: Mapping[str, Stored] = field(default_factory=dict)
    repeat_of: str | None = None
    generation: str = ""
    reason: str = ""
    correlation_id: str = ""
    trace_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposer:
    """Who proposes, under which authority: the verified token's facts, never the token.

    details: the authorization details as JSON values, snapshot into the grant. chain: identities the agent acts for;
    none of them may approve. grant_until_s, max_uses, max_open_commands, may_repeat, approvals come from the matching
    detail. operator: the person under whose authority it is done without a token (`operator:NAME`); `principal` then
    says whose proposal it is. four_eyes: none of them may approve it. key_set: the digest of the public keys that the
    token was verified with.
    """

    principal: str
    client_id: str
    tenant: str
    issuer: str
    token_id: str
    key_id: str
    decision_id: str
    details: tuple[Mapping[str, Any], ...] = ()
    chain: tuple[str, ...] = ()
    grant_until_s: int | None = None
    max_uses: int | None = None
    max_open_commands: int | None = None
    may_repeat: bool = False
    approvals_required: int = 1
    operator: str = ""
    four_eyes: bool = True
    key_set: str = ""

    @property
    def actor(self) -> str:
        """Who acts, for the journal."""
        return self.operator or self.principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The proposal is durable. `deduplicated`: it already was, under `command_id`; `original_at_ms` says since when."""

    command_id: str
    idempotency_key: str
    deduplicated: bool
    original_at_ms: int


class IntakeRefused(Exception):
    """The proposal was not accepted and changed nothing.

    Codes: idempotency_conflict (with `differing` field names), already_proposed (another principal's; `command_id` only
    when the caller's query scope covers it), token_exhausted, revoked, frozen, stale_version, earlier_version_in_doubt,
    withdrawal_under_way, not_live, too_many_open_commands, decision_closed, decision_exhausted, repeat_not_granted,
    repeat_of_unknown, repeat_of_not_newest, not_repeatable_yet, payload_missing, not_an_image,
    unknown_site, schedule_beyond_grant, schedule_missed, unknown_intent, policy_refused.
    """

    def __init__(
        self,
        code: str,
        *,
        field: str | None = None,
        differing: tuple[str, ...] = (),
        command_id: str | None = None,
        retryable: bool = False,
        limit: int | None = None,
        actual: int | None = None,
    ) -> None:
        super().__init__(code)
        self.code = code
        self.field = field
        self.differing = differing
        self.command_id = command_id
        self.retryable = retryable
        self.limit = limit
        self.actual = actual


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """One step as people and agents see it. state: of the registry, or NOT_RUN or CANCELLED (`execution.folding`).
    key_strategy: by what its object is known as ours, where there are ways."""

    name: str
    kind: str
    system: str
    effect_class: str
    state: str
    attempts: int
    compensation_state: str
    external_resource_id: str | None = None
    reference: str | None = None
    error_code: str | None = None
    completed_at_ms: int | None = None
    next_check_at_ms: int | None = None
    key_strategy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The eleven questions, answered from the journal alone."""

    executed: str
    succeeded: tuple[str, ...]
    remaining: tuple[str, ...]
    unknown: tuple[str, ...]
    retry_safe: str
    direction: str
    compensation: str
    diverged: bool
    checked_at_ms: int | None
    resumable: bool
    human: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFor:
    """What the command waits for, who can end it, since when."""

    what: str
    who: str
    since_ms: int

    @property
    def needs_person(self) -> bool:
        """Whether it ends by nobody's work but a person's."""
        return self.who != NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalView:
    """The open or given approval."""

    required: bool
    state: str
    content_hash: str | None = None
    expires_at_ms: int | None = None
    rejection: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewView:
    """An open question for a person."""

    review_id: str
    kind: str
    step: str
    owner: str
    opened_at_ms: int
    verdicts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyView:
    """What is left to people, and to whom."""

    name: str
    owner: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandView:
    """Everything that a status answer is made of; nothing in it claims more than the journal proves.

    state: the one word shown (steps folded in, the most doubtful first, then blockers). live: the pivot's effect was
    verified in the external system at `verified_at_ms`. done: nothing more happens by itself and nobody is waited for.
    next_action: wait | tell_user | stop | fix_input. publish_at: the schedule, also as the site's own clock shows it.
    content: the state of the article, whatever command brought it there. follow_ups: what the ending leaves to people.
    principal: whose proposal it is; proposed_by: also names a person who set it in motion for them. repeat_of: the
    command that it does once more on purpose. takes_down: its success is that nothing is public.
    """

    command_id: str
    workflow_id: str
    saga_id: str
    decision_id: str
    idempotency_key: str
    principal: str
    proposed_by: str
    tenant: str
    intent: str
    site: str
    object_id: str
    object_version: int
    state: str
    phase: str | None
    ending: str | None
    done: bool
    live: bool
    verified_at_ms: int | None
    created_at_ms: int
    updated_at_ms: int
    trace_id: str | None
    publish_at_ms: int | None
    publish_at_local: str | None
    say_to_user: str
    next_action: str
    next_poll_after_s: float
    external_version: str | None
    reference: str | None
    error_code: str | None
    blockers: tuple[str, ...]
    approval: ApprovalView
    steps: tuple[StepView, ...]
    answers: Answers
    waiting_for: WaitingFor | None
    reviews: tuple[ReviewView, ...] = field(default_factory=tuple)
    content: str | None = None
    follow_ups: tuple[DutyView, ...] = field(default_factory=tuple)
    repeat_of: str | None = None
    takes_down: bool = False
