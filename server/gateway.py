"""The policy enforcement point: who calls, and does their token reach this far?

Every call proves who calls (`callers`), asks the store whether that was revoked, and checks scope and limits; what is
refused leaves a row without content. What is permitted becomes a `Proposal` and a `Proposer` for intake, which judges
everything that needs the database, in its own transaction. The token's text goes no further.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol

from capabilities.credential import find_credentials
from capabilities.details import AuthorizationDetail, Intent
from capabilities.errors import CredentialError, KeyFileError, ScopeError
from capabilities.resources import QueryScope
from capabilities.revocation import RevocationScope, scopes_of, token_scope
from capabilities.scope import find_detail, may_query, permits, query_scopes
from capabilities.token import Capability, Verifier
from execution.ports import Clock
from execution.proposal import Accepted, CommandView, IntakeRefused, Proposal, Proposer
from server.arguments import CONTENT_BYTES_MAX, ProposePublish, QueryCommandStatus
from server.callers import Caller
from server.errors import (
    GatewayRefused,
    Refusal,
    from_credential,
    from_intake,
    from_scope,
    from_token_file,
    refusal,
    refused,
)

TOKENS_COUNTED_MAX: Final = 1_024
QUERY_WINDOW_S: Final = 900.0
TOKENS_BURNT_MAX: Final = 8
STRANGERS_FILED_MAX: Final = 600
"""Refusal rows for callers whom no token proves, in QUERY_WINDOW_S: whoever reaches a port must not fill the disk."""
AGENT_FILED_MAX: Final = 200
"""The same for one agent, over all of its tokens. What is not filed is refused all the same."""

BY_HASH: Final = "artifact://sha256/"
MEDIA_TYPES: Final = {"markdown": "text/markdown", "html": "text/html", "blocks": "text/x-wordpress-blocks"}
_VOLATILE: Final = frozenset(
    {"article_id", "version", "site", "content", "payload_ref", "wait_seconds", "preview", "repeat_of"}
)

log = logging.getLogger("remit.gateway")


class Proposals(Protocol):
    """Intake, as the gateway uses it."""

    async def propose(self, proposal: Proposal, proposer: Proposer) -> Accepted: ...


class Statuses(Protocol):
    """The status reader, as the gateway uses it."""

    async def view(self, command_id: str) -> CommandView | None: ...
    async def by_key(self, tenant: str, idempotency_key: str) -> CommandView | None: ...
    async def recent(self, tenant: str, principal: str | None, limit: int = 10) -> tuple[CommandView, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalRow:
    """What a refusal leaves behind: who, which intent and target, which code. Never content."""

    tenant: str
    principal: str
    token_id: str
    intent: str
    target: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Stored content: its hash (64 hex digits) and size."""

    sha256: str
    size: int


class Records(Protocol):
    """What the gateway needs of the store besides intake and status."""

    async def why_not(self, scopes: frozenset[RevocationScope], *, issued_s: int, expires_s: int) -> str | None: ...
    async def revoke(self, scope: RevocationScope, reason: str) -> None: ...
    async def file_refusal(self, row: RefusalRow) -> None: ...
    async def payload(self, ref: str) -> Payload | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A proposal that the gateway lets through."""

    proposal: Proposal
    proposer: Proposer
    capability: Capability
    content_bytes: int


class Gateway:
    """Checks calls of one installation."""

    def __init__(
        self,
        *,
        verifier: Verifier,
        proposals: Proposals,
        statuses: Statuses,
        records: Records,
        clock: Clock,
        lists: frozenset[str],
        sites: frozenset[str],
    ) -> None:
        self._verifier = verifier
        self._proposals = proposals
        self._statuses = statuses
        self._records = records
        self._clock = clock
        self._lists = lists
        self._sites = sites
        self._rates = QueryRates(clock)
        self._strangers = QueryRates(clock)
        self._refused = QueryRates(clock)

    async def authenticate(self, raw: str) -> Capability:
        """Whom the token of an HTTP request proves, before anything else of it is read. Raises GatewayRefused."""
        try:
            return self._verifier.verify(raw, self._clock.now_ms() // 1000)
        except CredentialError as error:
            raise await self.stranger(from_credential(error)) from None

    async def stranger(self, found: Refusal) -> GatewayRefused:
        """Refuse a request that proves nobody."""
        if self._strangers.take("", STRANGERS_FILED_MAX) > 0:
            return GatewayRefused(found)
        return await self._filed(found, None, "http", "")

    async def inspect(self, intent: str, given: Mapping[str, Any]) -> None:
        """Refuse arguments that carry a token: it has been through a prompt, so one of ours is revoked."""
        if await self._burnt(given):
            raise await self._filed(refusal("credential_in_arguments"), None, intent, "")

    async def misplaced(self, given: Sequence[str]) -> None:
        """Refuse a request that carries a token where none belongs: it has been through logs, so one of ours is
        revoked. Nobody has proven anything yet."""
        if await self._burnt(given):
            raise await self.stranger(refusal("credential_misplaced"))

    async def _burnt(self, given: Mapping[str, Any] | Sequence[str]) -> bool:
        found = tuple(islice(find_in(given), TOKENS_BURNT_MAX))
        for raw in found:
            await self._burn(raw)
        return bool(found)

    async def admit(
        self, arguments: ProposePublish, caller: Caller, correlation_id: str, trace_id: str | None
    ) -> Admitted:
        """Check token, scope and limits of a proposal, and put it into normal form. Raises GatewayRefused."""
        target = f"site/{arguments.site}/{arguments.article_id}"
        capability = await self._prove(caller, "propose_publish", target)
        try:
            payload = await payload_of(arguments, self._records)
            detail = self._within_scope(arguments, capability, target, payload.size)
        except GatewayRefused as error:
            raise await self._filed(error.refusal, capability, "propose_publish", target) from None
        return Admitted(
            proposal=normal_form(arguments, payload.sha256, correlation_id, trace_id),
            proposer=proposer_of(capability, detail),
            capability=capability,
            content_bytes=payload.size,
        )

    async def accept(self, admitted: Admitted) -> Accepted:
        """Hand over to intake. Raises GatewayRefused with what its transaction refused."""
        proposal = admitted.proposal
        try:
            return await self._proposals.propose(proposal, admitted.proposer)
        except IntakeRefused as error:
            target = f"site/{proposal.site}/{proposal.object_id}"
            found = from_intake(error, command_id=await self._may_name(error.command_id, admitted.capability))
            raise await self._filed(found, admitted.capability, proposal.intent, target) from None

    async def command(self, arguments: QueryCommandStatus, caller: Caller) -> CommandView:
        """The one command that was asked for. Absent and forbidden are the same answer."""
        capability = await self._asker(caller)
        view = await self._find(arguments, capability)
        if view is None or not _visible(capability, view):
            raise await self._filed(refusal("command_not_found"), capability, "query_command_status", "command")
        return view

    async def refreshed(self, shown: CommandView) -> CommandView:
        """The same command again, for a caller who was just allowed to see it."""
        return await self._statuses.view(shown.command_id) or shown

    async def own(self, accepted: Accepted) -> CommandView:
        """The command that intake just answered with."""
        view = await self._statuses.view(accepted.command_id)
        if view is None:
            raise refused("unavailable")
        return view

    async def latest(self, caller: Caller) -> tuple[CommandView, ...]:
        """The caller's last ten commands; the tenant's for a caller who may ask about all of them."""
        capability = await self._asker(caller)
        claims = capability.claims
        everything = QueryScope() in query_scopes(claims.details)
        views = await self._statuses.recent(claims.tenant, None if everything else claims.sub)
        return tuple(view for view in views if _visible(capability, view))

    async def _may_name(self, command_id: str | None, capability: Capability) -> str | None:
        """The id, when the caller's query scope covers that command."""
        view = None if command_id is None else await self._statuses.view(command_id)
        return command_id if view is not None and _visible(capability, view) else None

    async def _find(self, arguments: QueryCommandStatus, capability: Capability) -> CommandView | None:
        if arguments.command_id is not None:
            return await self._statuses.view(arguments.command_id)
        assert arguments.idempotency_key is not None, "without an id there is a list instead"
        return await self._statuses.by_key(capability.claims.tenant, arguments.idempotency_key)

    async def _asker(self, caller: Caller) -> Capability:
        capability = await self._prove(caller, "query_command_status", "command")
        detail = find_detail(capability.claims.details, Intent.QUERY)
        if detail is None or not query_scopes(capability.claims.details):
            raise await self._filed(refusal("query_not_granted"), capability, "query_command_status", "command")
        wait_s = self._rates.take(capability.claims.jti, detail.limits.max_uses)
        if wait_s > 0:
            raise GatewayRefused(refusal("rate_limited", limit=detail.limits.max_uses, retry_after_s=wait_s))
        return capability

    async def _prove(self, caller: Caller, intent: str, target: str) -> Capability:
        try:
            capability = caller()
        except CredentialError as error:
            raise await self._filed(from_credential(error), None, intent, target) from None
        except KeyFileError as error:
            raise await self._filed(from_token_file(error), None, intent, target) from None
        times = capability.claims
        why = await self._records.why_not(scopes_of(capability), issued_s=times.iat, expires_s=times.exp)
        if why is not None:
            raise await self._filed(refusal(why), capability, intent, target)
        return capability

    def _within_scope(
        self, arguments: ProposePublish, capability: Capability, target: str, size: int
    ) -> AuthorizationDetail:
        if size > CONTENT_BYTES_MAX:
            raise refused("limit_exceeded", field="content", limit=CONTENT_BYTES_MAX, actual=size)
        repeat = arguments.repeat_of is not None
        try:
            detail = permits(capability.claims.details, Intent.PUBLISH, target, content_bytes=size, repeat=repeat)
        except ScopeError as error:
            raise GatewayRefused(from_scope(error, _beyond(arguments, capability))) from None
        if arguments.site not in self._sites:
            raise refused("unknown_site", field="site")
        if not set(arguments.notify or ()) <= self._lists:
            raise refused("unknown_list", field="notify")
        return detail

    async def _burn(self, raw: str) -> None:
        try:
            claims = self._verifier.verify(raw, self._clock.now_ms() // 1000).claims
        except CredentialError:
            log.warning("a token-like text stood in the arguments of a call; it is not one of ours or no longer valid")
            return
        scope = token_scope(tenant=claims.tenant, iss=claims.iss, jti=claims.jti)
        await self._records.revoke(scope, "found in the arguments of a call")
        log.warning("token %s of %s stood in the arguments of a call and is revoked", claims.jti, claims.sub)

    async def _filed(self, found: Refusal, capability: Capability | None, intent: str, target: str) -> GatewayRefused:
        claims = capability.claims if capability else None
        if self._refused.take(claims.sub if claims else "", AGENT_FILED_MAX if claims else STRANGERS_FILED_MAX) > 0:
            return GatewayRefused(found)
        row = RefusalRow(
            tenant=self._verifier.tenant,
            principal=claims.sub if claims else "",
            token_id=claims.jti if claims else "",
            intent=intent,
            target=target,
            code=found.code,
        )
        await self._records.file_refusal(row)
        log.info("refused %s on %s: %s", intent, target, found.code)
        return GatewayRefused(found)


class QueryRates:
    """How often each token asks: a bucket of its `max_uses` that refills over the life of a token. In memory only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, token_id: str, uses_max: int) -> float:
        """0 when the token may ask now, else the seconds until it may."""
        now_s = self._clock.awake_s()
        left, since_s = self._left.pop(token_id, (float(uses_max), now_s))
        left = min(float(uses_max), left + (now_s - since_s) * uses_max / QUERY_WINDOW_S)
        allowed = left >= 1
        self._left[token_id] = (left - 1 if allowed else left, now_s)
        while len(self._left) > TOKENS_COUNTED_MAX:
            self._left.popitem(last=False)
        return 0.0 if allowed else math.ceil((1 - left) * QUERY_WINDOW_S / uses_max)


async def payload_of(arguments: ProposePublish, records: Records) -> Payload:
    """The content of a proposal, however it was handed over. Raises GatewayRefused."""
    if (arguments.content is None) == (arguments.payload_ref is None):
        fix = "Give exactly one of content and payload_ref."
        raise GatewayRefused(refusal("invalid_argument", field="content", fix=fix))
    if arguments.content is not None:
        content = arguments.content.encode()
        return Payload(sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    found = await records.payload(arguments.payload_ref or "")
    if found is None:
        raise refused("payload_missing", field="payload_ref")
    return found


def normal_form(arguments: ProposePublish, sha256: str, correlation_id: str, trace_id: str | None) -> Proposal:
    """The proposal that an equal intent always becomes: content enters by its hash, however it was handed over."""
    meaning = arguments.model_dump(mode="json", exclude=set(_VOLATILE), exclude_none=True)
    content = None if arguments.content is None else arguments.content.encode()
    return Proposal(
        intent="propose_publish",
        site=arguments.site,
        object_id=arguments.article_id,
        version=arguments.version,
        arguments=meaning | {"content_sha256": sha256},
        content=content,
        content_media_type=MEDIA_TYPES[arguments.content_format],
        payload_ref=arguments.payload_ref,
        repeat_of=arguments.repeat_of,
        correlation_id=correlation_id,
        trace_id=trace_id,
    )


def proposer_of(capability: Capability, detail: AuthorizationDetail) -> Proposer:
    """The facts of a verified token under the one detail that permits the call."""
    claims = capability.claims
    return Proposer(
        principal=claims.sub,
        client_id=claims.client_id,
        tenant=claims.tenant,
        issuer=claims.iss,
        token_id=claims.jti,
        key_id=capability.kid,
        key_set=capability.key_set,
        decision_id=claims.dec,
        details=tuple(item.to_json() for item in claims.details),
        chain=(claims.sub, claims.client_id),
        grant_until_s=detail.constraints.effect_not_after_s,
        max_uses=detail.limits.max_uses,
        max_open_commands=detail.limits.max_open_commands,
        may_repeat=detail.constraints.repeat,
        approvals_required=detail.constraints.approvals,
    )


def find_in(value: Any) -> Iterator[str]:
    """Every token in any text of a JSON value, keys included. Iterative; a message holds a bounded number of values."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield from (found.raw for found in find_credentials(item))
        elif isinstance(item, Mapping):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item


def _beyond(arguments: ProposePublish, capability: Capability) -> str:
    """Which argument a token does not reach: the article where it covers others of that site, else the site."""
    detail = find_detail(capability.claims.details, Intent.PUBLISH)
    on_site = f"site/{arguments.site}/"
    return "article_id" if detail and any(r.startswith(on_site) for r in detail.resources) else "site"


def _visible(capability: Capability, view: CommandView) -> bool:
    claims = capability.claims
    return may_query(
        claims.details, token_tenant=claims.tenant, tenant=view.tenant, dec=view.decision_id, agent=view.principal
    )
