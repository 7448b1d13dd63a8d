"""The OAuth 2.1 token endpoint for unattended agents: client credentials, proven with `private_key_jwt`.

A registered client signs an assertion with its own key, names this gateway as `resource` (RFC 8707), may ask for less
than it may have (`authorization_details`, RFC 9396), and gets one capability token under the decision that its operator
opened: the same tokens, budget and records as `remit token issue`. It runs as a process of its own, because the key
that signs tokens has no place in the gateway, which only verifies.

Errors are those of RFC 6749 §5.2, with our own stable code as their description; nothing of the request is repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from capabilities import strict_json
from capabilities.assertion import Assertion, AssertionVerifier
from capabilities.details import Intent, parse_details
from capabilities.errors import CredentialError, IssueCode, IssueError, KeyFileError
from capabilities.issuer import TokenRequest
from capabilities.keys import VerificationKey, load_client_key
from capabilities.narrowing import narrowed
from capabilities.strict_json import StrictJsonError
from execution.store import authority
from execution.store.errors import StoreError
from server import issuing
from server.app import Installation
from server.config import Config, ConfigError, load_config
from server.errors import Refusal
from server.gateway import QueryRates
from server.http_door import Guard, HttpRefused, answering, document, only
from server.settings import ClientSection

CLIENT_PREFIX: Final = "client:"
METADATA_PATH: Final = "/.well-known/oauth-authorization-server"
RESOURCE_PATH: Final = "/.well-known/oauth-protected-resource"
TOKEN_PATH: Final = "/token"  # noqa: S105 (a path)
AUTHORIZE_PATH: Final = "/authorize"
BODY_BYTES_MAX: Final = 16_384
BODY_S_MAX: Final = 10.0
FIELDS_MAX: Final = 16
REQUESTS_MAX: Final = 300
"""How many requests of one proven client are answered in a quarter of an hour: a program that runs in circles must not
spend its decision's budget in a minute."""
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
FORM: Final = "application/x-www-form-urlencoded"
TYPES: Final = tuple(intent.urn for intent in (Intent.PUBLISH, Intent.QUERY))

log = logging.getLogger("remit.issuer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused(Exception):
    """No token. error: of RFC 6749 §5.2, RFC 8707 §2, RFC 9396 §5 or RFC 8628 §3.5. code: ours. again_s: seconds until
    it may be asked again."""

    error: str
    code: str
    status: int = 400
    again_s: float = 0.0


def resource_metadata(config: Config) -> Mapping[str, Any]:
    """What the gateway says of itself (RFC 9728 §2)."""
    return {
        "resource": config.settings.gateway.audience,
        "authorization_servers": [config.settings.token_endpoint.url()],
        "bearer_methods_supported": ["header"],
        "authorization_details_types_supported": list(TYPES),
        "resource_name": "Remit",
    }


def issuer_metadata(url: str) -> Mapping[str, Any]:
    """What the issuer says of itself (RFC 8414 §2). Nobody is sent to an authorization page: it only refuses."""
    return {
        "issuer": url,
        "token_endpoint": url + TOKEN_PATH,
        "authorization_endpoint": url + AUTHORIZE_PATH,
        "grant_types_supported": ["client_credentials"],
        "response_types_supported": [],
        "token_endpoint_auth_methods_supported": ["private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": ["EdDSA", "ES256"],
        "authorization_details_types_supported": list(TYPES),
    }


def keys_of(config: Config) -> Mapping[str, VerificationKey]:
    """The keys of the registered clients, by client id. Raises KeyFileError."""
    return {
        CLIENT_PREFIX + name: load_client_key(config.path(section.public_key_file), CLIENT_PREFIX + name)
        for name, section in config.settings.client.items()
    }


def issuer_app(at: Installation, guard: Guard) -> ASGIApp:
    """The application. Raises KeyFileError."""
    endpoint = Endpoint(at)
    told = issuer_metadata(at.config.settings.token_endpoint.url())

    async def answer(request: Request) -> Response:
        await guard(request)
        match request.url.path:
            case path if path == METADATA_PATH:
                only(request, "GET", "HEAD")
                return document(200, told)
            case path if path == TOKEN_PATH:
                only(request, "POST")
                return await endpoint(request)
            case path if path == AUTHORIZE_PATH:
                return _refusal(Refused(error="unsupported_response_type", code="no_authorization_page"))
            case _:
                raise HttpRefused(404, Refusal(code="not_found", fix=""))

    return answering(answer, body=_as_error)


class Endpoint:
    """From a request to a token, or to a reason.

    Who is registered is read anew for each request: who was taken out of the configuration gets nothing more.
    """

    def __init__(self, at: Installation) -> None:
        self._at = at
        self._rates = QueryRates(at.clock)
        keys_of(at.config)

    async def __call__(self, request: Request) -> Response:
        """One answer; it is nobody's to keep."""
        try:
            form = await _form(request)
            return document(200, await self._issued(load_config(self._at.config.home), form), {"Pragma": "no-cache"})
        except Refused as error:
            log.info("no token: %s, %s", error.error, error.code)
            return _refusal(error)
        except (StoreError, KeyFileError, ConfigError) as error:
            log.error("no token can be issued: %s", error)
            return _refusal(Refused(error="temporarily_unavailable", code="unavailable", status=503))

    async def _issued(self, config: Config, form: Mapping[str, str]) -> Mapping[str, Any]:
        if form.get("grant_type") != "client_credentials":
            raise Refused(error="unsupported_grant_type", code="unsupported_grant_type")
        assertion = self._authenticated(config, form)
        again_s = self._rates.take(assertion.client_id, REQUESTS_MAX)
        if again_s > 0:
            raise Refused(error="slow_down", code="rate_limited", status=429, again_s=again_s)
        if form.get("resource") != config.settings.gateway.audience:
            raise Refused(error="invalid_target", code="wrong_audience")
        if form.get("scope", ""):
            raise Refused(error="invalid_scope", code="scope_not_supported")
        decision, widest = await self._widest(config.settings.client, assertion)
        request = self._asked(widest, form.get("authorization_details"))
        once = partial(
            authority.use_token,
            iss=assertion.client_id,
            jti=assertion.jti,
            tenant=self._at.tenant,
            max_uses=1,
            now_ms=self._at.clock.now_ms(),
        )
        try:
            raw, claims = await issuing.issue(self._at, decision, request, once=once)
        except issuing.AskedTwice:
            raise _unproven("assertion_used") from None
        except IssueError as error:
            asked_badly = error.code is IssueCode.INVALID_REQUEST and "authorization_details" in form
            name = "invalid_authorization_details" if asked_badly else "unauthorized_client"
            raise Refused(error=name, code=error.code) from None
        return {
            "access_token": raw,
            "token_type": "Bearer",
            "expires_in": claims.exp - claims.iat,
            "authorization_details": [detail.to_json() for detail in claims.details],
        }

    def _authenticated(self, config: Config, form: Mapping[str, str]) -> Assertion:
        if form.get("client_assertion_type") != ASSERTION_TYPE or "client_secret" in form:
            raise _unproven("private_key_jwt_required")
        verifier = AssertionVerifier(clients=keys_of(config), issuer=config.settings.token_endpoint.url())
        try:
            assertion = verifier.verify(form.get("client_assertion", ""), self._at.clock.now_ms() // 1000)
        except CredentialError as error:
            raise _unproven(error.code) from None
        if form.get("client_id", assertion.client_id) != assertion.client_id:
            raise _unproven("wrong_client")
        return assertion

    async def _widest(
        self, clients: Mapping[str, ClientSection], assertion: Assertion
    ) -> tuple[authority.Decision, TokenRequest]:
        """The decision under which the client acts, and the most that one token of it may be."""
        section = clients[assertion.client_id.removeprefix(CLIENT_PREFIX)]
        decision = await self._at.store.read(lambda conn: authority.find_decision(conn, section.decision))
        if decision is None:
            raise Refused(error="unauthorized_client", code="decision_not_found")
        record = issuing.record_of(decision)
        return decision, TokenRequest(
            client_id=assertion.client_id,
            permissions=record.permissions,
            queries=issuing.queries_of(record),
            uses=section.uses,
            open_commands_max=section.open,
            repeat=section.repeat,
        )

    def _asked(self, widest: TokenRequest, details: str | None) -> TokenRequest:
        if details is None:
            return widest
        try:
            value = strict_json.loads(details.encode())
            return narrowed(widest, parse_details(value, location=self._at.config.settings.gateway.audience))
        except (StrictJsonError, UnicodeEncodeError):
            raise Refused(error="invalid_authorization_details", code="not_json") from None
        except (CredentialError, IssueError) as error:
            raise Refused(error="invalid_authorization_details", code=error.code) from None


async def _form(request: Request) -> Mapping[str, str]:
    """The parameters, each once. Nothing of a request belongs into its address."""
    if request.url.query:
        raise Refused(error="invalid_request", code="query_not_allowed")
    if request.headers.get("authorization") is not None:
        raise _unproven("private_key_jwt_required")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM or request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(error="invalid_request", code="content_type_not_supported")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S_MAX):
            async for chunk in request.stream():
                body += chunk
                if len(body) > BODY_BYTES_MAX:
                    raise Refused(error="invalid_request", code="payload_too_large", status=413)
    except TimeoutError:
        raise Refused(error="invalid_request", code="body_too_slow", status=408) from None
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=FIELDS_MAX,
        )
    except ValueError:
        raise Refused(error="invalid_request", code="not_a_form") from None
    if any(count > 1 for count in Counter(name for name, _ in pairs).values()):
        raise Refused(error="invalid_request", code="duplicate_parameter")
    return dict(pairs)


def _unproven(code: str) -> Refused:
    return Refused(error="invalid_client", code=code, status=401)


def _refusal(error: Refused) -> Response:
    headers = {"WWW-Authenticate": "private_key_jwt"} if error.status == 401 else {}
    if error.again_s:
        headers["Retry-After"] = str(int(error.again_s))
    return document(error.status, {"error": error.error, "error_description": error.code}, headers)


def _as_error(found: Refusal) -> Mapping[str, Any]:
    """A request that was refused at the door, said as this endpoint says everything."""
    return {"error": "invalid_request", "error_description": found.code}
