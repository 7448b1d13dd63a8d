"""An unattended agent with a key of its own and the gateway's address: it finds the issuer, gets a token, proposes.

Gateway and issuer are processes of their own; the client is the SDK's, and for whatever no honest client would send,
requests built by hand.
"""

import base64
import contextlib
import json
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from mcp.client.auth.extensions.client_credentials import PrivateKeyJWTOAuthProvider, SignedJWTParameters
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from server.token_endpoint import REQUESTS_MAX
from tests.e2e.http_world import ANSWER_MAX_S, Reachable, Received, Request, calling, listening, reachable, tool_call
from tests.e2e.world import REMIT, Agent, Home

CLIENT: Final = "client:nightly"
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
PrivateKey = Ed25519PrivateKey | EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class Program:
    """A registered client: what it holds, and what it was told."""

    home: Home
    key: PrivateKey
    gateway: Reachable
    issuer: Reachable
    decision: str

    def assertion(self, key: PrivateKey | None = None, header: Mapping[str, Any] = {}, **changes: Any) -> str:
        now = int(time.time())
        claims = {"iss": CLIENT, "sub": CLIENT, "aud": self.issuer.url, "iat": now, "exp": now + 60}
        claims |= {"jti": str(uuid.uuid4()), **changes}
        claims = {name: value for name, value in claims.items() if value is not None}
        signer = key or self.key
        return jwt.encode(claims, signer, "EdDSA" if isinstance(signer, Ed25519PrivateKey) else "ES256", dict(header))

    def form(self, **changes: str | None) -> dict[str, str]:
        fields: dict[str, str | None] = {
            "grant_type": "client_credentials",
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": changes.pop("client_assertion", None) or self.assertion(),
            "resource": self.gateway.mcp,
            **changes,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def ask(self, **changes: str | None) -> Received:
        return self.post(urlencode(self.form(**changes)).encode())

    def post(self, body: bytes, **headers: str) -> Received:
        return self.issuer.send(posted(self.issuer, body, **headers))

    def issued(self) -> int:
        """Tokens that were counted against the decision."""
        shown = self.home.remit("decision", "show", self.decision).document
        return int(shown["tokens"].partition("/")[0])


def posted(at: Reachable, body: bytes, path: str = "/token", method: str = "POST", **changes: str) -> bytes:
    headers = {
        "Host": f"127.0.0.1:{at.port}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Content-Length": str(len(body)),
    }
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    return Request(method=method, path=path, headers=headers, body=body).raw()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def configured(home: Home, decision: str, gateway_port: int, issuer_port: int, **client: str) -> None:
    """The home's configuration, with a token endpoint and one client."""
    file = home.path / "remit.toml"
    text = file.read_text()
    text = re.sub(r'(?m)^issuer = ".*"$', f'issuer = "http://127.0.0.1:{issuer_port}"', text, count=1)
    text = re.sub(r'(?m)^audience = ".*"$', f'audience = "http://127.0.0.1:{gateway_port}/mcp"', text, count=1)
    text = re.sub(r"(?ms)^(\[http\].*?^port = )\d+$", rf"\g<1>{gateway_port}", text, count=1)
    more = {"public_key_file": "clients/nightly.pem", "decision": decision} | client
    lines = [f"[token_endpoint]\nenabled = true\nport = {issuer_port}", "[client.nightly]"]
    lines += [f'{name} = "{value}"' for name, value in more.items()]
    file.write_text("\n".join([text, *lines, ""]))


def registered(home: Home, key: PrivateKey) -> Path:
    """The public half of the program's key, where an operator puts it."""
    folder = home.path / "clients"
    folder.mkdir(exist_ok=True)
    file = folder / "nightly.pem"
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    file.write_bytes(key.public_key().public_bytes(*form))
    return file


@contextlib.contextmanager
def unattended(folder: Path, key: PrivateKey) -> Iterator[Program]:
    """Gateway and issuer of a fresh home, and a program that is registered there."""
    home = Home.made(folder / "home")
    opened = home.remit("decision", "open", "--agent", "nightly", "--site", "blog", "--tokens", "50", "--uses", "50")
    decision = opened.document["decision_id"]
    gateway_port, issuer_port = free_port(), free_port()
    registered(home, key)
    configured(home, decision, gateway_port, issuer_port)
    with (
        reachable(home, "--no-worker", "--port", str(gateway_port)) as gateway,
        listening([*REMIT, "issuer", "--home", str(home.path)]) as issuer,
    ):
        yield Program(home, key, gateway, issuer, decision)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    with unattended(tmp_path_factory.mktemp("unattended"), Ed25519PrivateKey.generate()) as at:
        yield at


class Nowhere:
    """A program that keeps nothing between its runs."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


@pytest.mark.behaviour("unattended.published")
@pytest.mark.parametrize("algorithm", ["EdDSA", "ES256"])
async def test_a_program_that_knows_only_the_gateway_gets_a_token_and_proposes(algorithm: str, tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate() if algorithm == "EdDSA" else generate_private_key(SECP256R1())
    with unattended(tmp_path, key) as program:
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        signing = SignedJWTParameters(
            issuer=CLIENT, subject=CLIENT, signing_key=pem.decode(), signing_algorithm=algorithm
        )
        auth = PrivateKeyJWTOAuthProvider(
            server_url=program.gateway.mcp,
            storage=Nowhere(),
            client_id=CLIENT,
            assertion_provider=signing.create_assertion_provider(),
            issuer=program.issuer.url,
        )
        async with (
            httpx2.AsyncClient(auth=auth, timeout=ANSWER_MAX_S) as http,
            Client(streamable_http_client(program.gateway.mcp, http_client=http)) as client,
        ):
            proposed = await Agent(client).propose(wait_seconds=0)
        assert (proposed["done"], proposed["live"], program.issued()) == (False, False, 1)
        (row,) = program.home.remit("ls").document["commands"]
        assert row["command_id"] == proposed["command_id"]
        (token,) = program.home.remit("token", "ls").document["tokens"]
        assert (token["client_id"], token["sub"], token["dec"]) == (CLIENT, "agent:nightly", program.decision)


def test_the_way_to_a_token_is_told_and_nothing_else(program: Program) -> None:
    refused = program.gateway.send(calling(program.gateway.port, None, tool_call()).raw())
    found = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
    assert (refused.status, found is not None) == (401, True)
    told = program.gateway.get("/.well-known/oauth-protected-resource/mcp").document
    assert found is not None
    assert found[1] == program.gateway.url + "/.well-known/oauth-protected-resource/mcp"
    assert told["resource"] == program.gateway.mcp
    assert told["authorization_servers"] == [program.issuer.url]
    assert told["authorization_details_types_supported"] == ["urn:remit:intent:publish:1", "urn:remit:intent:query:1"]
    issuer = program.issuer.get("/.well-known/oauth-authorization-server").document
    assert (issuer["issuer"], issuer["token_endpoint"]) == (program.issuer.url, program.issuer.url + "/token")
    assert issuer["token_endpoint_auth_methods_supported"] == ["private_key_jwt"]
    assert program.issuer.get("/authorize").document["error"] == "unsupported_response_type"
    assert program.issuer.get("/mcp").status == 404


def test_what_is_asked_for_narrows_the_token_and_never_widens_it(program: Program) -> None:
    def details(**changes: Any) -> str:
        detail = {
            "type": "urn:remit:intent:publish:1",
            "locations": [program.gateway.mcp],
            "actions": ["propose_publish"],
            "resources": ["site/blog/article-1"],
            "limits": {"max_uses": 1, "max_bytes": 1_000, "max_open_commands": 1},
            "constraints": {"approval": "human:1"},
        }
        return json.dumps([detail | changes])

    before = program.issued()
    narrow = program.ask(authorization_details=details())
    assert (narrow.status, narrow.headers["cache-control"]) == (200, "no-store")
    granted = narrow.document["authorization_details"][0]
    assert (granted["resources"], granted["limits"]["max_bytes"]) == (["site/blog/article-1"], 1_000)
    query = [{**json.loads(details())[0], "type": "urn:remit:intent:query:1", "actions": ["query_command_status"]}]
    query[0] |= {"resources": ["command/any"], "limits": {"max_uses": 5}, "constraints": {}}
    wider = {
        "another site": details(resources=["site/other/article-1"]),
        "every site": details(resources=["site/*/article-1"]),
        "more uses": details(limits={"max_uses": 2, "max_bytes": 1_000, "max_open_commands": 1}),
        "more bytes": details(limits={"max_uses": 1, "max_bytes": 300_000, "max_open_commands": 1}),
        "more open": details(limits={"max_uses": 1, "max_bytes": 1_000, "max_open_commands": 2}),
        "no approval": details(constraints={}),
        "repeat": details(constraints={"approval": "human:1", "repeat": True}),
        "until a time that is over": details(constraints={"approval": "human:1", "effect_not_after": 1_700_000_000}),
        "another gateway": details(locations=["https://elsewhere.example/mcp"]),
        "another intent": details(type="urn:remit:intent:order:1", actions=["propose_order"]),
        "an unknown member": details(more=1),
        "everybody's commands": json.dumps(query),
        "not JSON": "[",
        "nothing": "[]",
    }
    for name, asked in wider.items():
        told = program.ask(authorization_details=asked)
        assert told.status == 400, name
        expected = "unauthorized_client" if name == "everybody's commands" else "invalid_authorization_details"
        assert told.document["error"] == expected, name
    assert program.issued() == before + 1


Hostile = Callable[[Program], Received]


def segment(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def tampered(program: Program, header: Any, keep_signature: bool = True) -> str:
    _, body, signature = program.assertion().split(".")
    return ".".join([segment(header), body, signature if keep_signature else ""])


def asserting(**changes: Any) -> Hostile:
    return lambda p: p.ask(client_assertion=p.assertion(**changes))


def raw(text: str | Callable[[Program], str]) -> Hostile:
    return lambda p: p.ask(client_assertion=text(p) if callable(text) else text)


def asking(**changes: str | None) -> Hostile:
    return lambda p: p.ask(**changes)


HOSTILE: Final[dict[str, tuple[Hostile, int, str]]] = {
    "no assertion": (
        lambda p: p.post(urlencode({**p.form(), "client_assertion": ""}).encode()),
        401,
        "malformed_token",
    ),
    "another audience": (asserting(aud="https://elsewhere.example"), 401, "wrong_audience"),
    "the token endpoint as audience": (
        lambda p: p.ask(client_assertion=p.assertion(aud=p.issuer.url + "/token")),
        401,
        "wrong_audience",
    ),
    "two audiences": (lambda p: p.ask(client_assertion=p.assertion(aud=[p.issuer.url, "x"])), 401, "wrong_audience"),
    "a slash behind the audience": (
        lambda p: p.ask(client_assertion=p.assertion(aud=p.issuer.url + "/")),
        401,
        "wrong_audience",
    ),
    "expired": (asserting(iat=1_700_000_000, exp=1_700_000_060), 401, "expired"),
    "from the future": (asserting(iat=4_000_000_000, exp=4_000_000_060), 401, "not_yet_valid"),
    "not yet": (asserting(nbf=4_000_000_000), 401, "not_yet_valid"),
    "an hour long": (asserting(exp=4_000_000_000), 401, "lifetime_too_long"),
    "ended before it began": (asserting(exp=1), 401, "lifetime_too_long"),
    "exp as text": (asserting(exp="soon"), 401, "invalid_claim"),
    "exp as a fraction": (asserting(exp=1.5e9), 401, "malformed_payload"),
    "exp missing": (asserting(exp=None), 401, "missing_claim"),
    "iat missing": (asserting(iat=None), 401, "missing_claim"),
    "jti missing": (asserting(jti=None), 401, "missing_claim"),
    "jti empty": (asserting(jti=""), 401, "invalid_claim"),
    "jti long": (asserting(jti="x" * 129), 401, "invalid_claim"),
    "jti with a line break": (asserting(jti="a\nb"), 401, "invalid_claim"),
    "an unknown claim": (asserting(scope="all"), 401, "unknown_claim"),
    "another subject": (asserting(sub="client:other", iss="client:other"), 401, "unknown_key"),
    "somebody else's word": (asserting(iss="client:other"), 401, "wrong_issuer"),
    "a stranger's key": (
        lambda p: p.ask(client_assertion=p.assertion(Ed25519PrivateKey.generate())),
        401,
        "bad_signature",
    ),
    "another algorithm": (
        lambda p: p.ask(client_assertion=p.assertion(generate_private_key(SECP256R1()))),
        401,
        "algorithm_mismatch",
    ),
    "alg none": (raw(lambda p: tampered(p, {"alg": "none"}, keep_signature=False)), 401, "unsupported_algorithm"),
    "alg HS256": (raw(lambda p: tampered(p, {"alg": "HS256"})), 401, "unsupported_algorithm"),
    "alg a list": (raw(lambda p: tampered(p, {"alg": ["EdDSA"]})), 401, "unsupported_algorithm"),
    "typ of a token": (asserting(header={"typ": "at+jwt"}), 401, "wrong_token_type"),
    "typ an object": (raw(lambda p: tampered(p, {"alg": "EdDSA", "typ": {}})), 401, "wrong_token_type"),
    "a key by address": (asserting(header={"jku": "https://evil.example"}), 401, "unknown_header"),
    "a key inside": (asserting(header={"jwk": {"kty": "OKP"}}), 401, "unknown_header"),
    "crit": (raw(lambda p: tampered(p, {"alg": "EdDSA", "crit": ["b64"]})), 401, "unknown_header"),
    "a capability token": (raw("a.b.c"), 401, "malformed_token"),
    "huge": (raw("a" * 5_000 + ".b.c"), 401, "malformed_token"),
    "a secret instead": (asking(client_secret="x"), 401, "private_key_jwt_required"),
    "another assertion type": (asking(client_assertion_type="urn:other"), 401, "private_key_jwt_required"),
    "another client id": (asking(client_id="client:other"), 401, "wrong_client"),
    "basic authentication": (
        lambda p: p.post(urlencode(p.form()).encode(), Authorization="Basic eDp5"),
        401,
        "private_key_jwt_required",
    ),
    "an authorization code": (asking(grant_type="authorization_code"), 400, "unsupported_grant_type"),
    "a token exchange": (
        asking(grant_type="urn:ietf:params:oauth:grant-type:token-exchange"),
        400,
        "unsupported_grant_type",
    ),
    "another resource": (asking(resource="https://elsewhere.example/mcp"), 400, "wrong_audience"),
    "no resource": (
        lambda p: p.post(urlencode({n: v for n, v in p.form().items() if n != "resource"}).encode()),
        400,
        "wrong_audience",
    ),
    "a scope": (asking(scope="admin"), 400, "scope_not_supported"),
    "a parameter twice": (
        lambda p: p.post(urlencode([*p.form().items(), ("resource", "x")]).encode()),
        400,
        "duplicate_parameter",
    ),
    "many parameters": (lambda p: p.post("&".join(f"a{n}=1" for n in range(40)).encode()), 400, "not_a_form"),
    "JSON": (
        lambda p: p.post(json.dumps(p.form()).encode(), Content_Type="application/json"),
        400,
        "content_type_not_supported",
    ),
    "compressed": (lambda p: p.post(b"x", Content_Encoding="gzip"), 400, "content_type_not_supported"),
    "not text": (lambda p: p.post(b"\xff\xfe"), 400, "not_a_form"),
    "badly encoded": (lambda p: p.post(b"grant_type=%ff"), 400, "not_a_form"),
    "not a form": (lambda p: p.post(b"grant_type"), 400, "not_a_form"),
    "too large": (lambda p: p.post(b"a=" + b"x" * 20_000), 413, "payload_too_large"),
    "in the address": (
        lambda p: p.issuer.send(posted(p.issuer, b"", "/token?client_assertion=" + quote(p.assertion()))),
        400,
        "query_not_allowed",
    ),
    "GET": (lambda p: p.issuer.send(posted(p.issuer, b"", method="GET")), 405, "method_not_allowed"),
    "another host": (lambda p: p.post(urlencode(p.form()).encode(), Host="evil.example"), 421, "host_not_allowed"),
    "another origin": (
        lambda p: p.post(urlencode(p.form()).encode(), Origin="https://evil.example"),
        403,
        "origin_not_allowed",
    ),
}


@pytest.mark.behaviour("unattended.hostile")
def test_a_hostile_request_for_a_token_gets_its_code_and_nothing_is_issued(program: Program) -> None:
    before = program.issued()
    assert len(HOSTILE) >= 50
    for name, (request, status, code) in HOSTILE.items():
        told = request(program)
        assert (told.status, told.document["error_description"]) == (status, code), name
        assert set(told.document) == {"error", "error_description"}, name
    assert program.issued() == before
    assert program.ask().status == 200, "and an honest one is still served"
    for line in program.issuer.logged().splitlines():
        assert "eyJ" not in line, "no assertion or token in the log"


@pytest.mark.behaviour("unattended.once")
def test_an_assertion_works_once_however_many_present_it_and_after_a_restart(program: Program) -> None:
    before = program.issued()
    body = urlencode(program.form()).encode()
    with ThreadPoolExecutor(8) as crowd:
        told = list(crowd.map(lambda _: program.post(body), range(16)))
    assert sorted(each.status for each in told) == [200] + [401] * 15
    assert {each.document["error_description"] for each in told if each.status == 401} == {"assertion_used"}
    with listening([*REMIT, "issuer", "--home", str(_elsewhere(program).path)]) as restarted:
        again = restarted.send(posted(restarted, body))
        assert (again.status, again.document["error_description"]) == (401, "assertion_used")
    assert program.issued() == before + 1


def _elsewhere(program: Program) -> Home:
    """The same home, for a second issuer at another port that has the name of the first."""
    file = program.home.path / "remit.toml"
    old, new = f"port = {program.issuer.port}", f'port = {free_port()}\npublic_url = "{program.issuer.url}"'
    assert file.read_text().count(old) == 1
    file.write_text(file.read_text().replace(old, new))
    return program.home


@pytest.mark.behaviour("unattended.decision")
def test_who_is_revoked_taken_out_too_fast_or_without_an_open_decision_gets_no_token(tmp_path: Path) -> None:
    with unattended(tmp_path, Ed25519PrivateKey.generate()) as program:
        assert program.ask().status == 200
        assert program.home.remit("revoke", "client", CLIENT, "--reason", "stolen").code == 0
        revoked = program.ask()
        assert (revoked.status, revoked.document["error_description"]) == (400, "revoked")
        assert program.home.remit("reinstate", "client", CLIENT).code == 0

        file = program.home.path / "remit.toml"
        whole = file.read_text()
        file.write_text(whole.replace("[client.nightly]", "[client.daily]"))
        taken_out = program.ask()
        assert (taken_out.status, taken_out.document["error_description"]) == (401, "unknown_key")
        file.write_text(whole + "\n[nonsense")
        unreadable = program.ask()
        assert (unreadable.status, unreadable.document["error"]) == (503, "temporarily_unavailable")
        file.write_text(whole)
        assert program.ask().status == 200

        assert program.home.remit("decision", "close", program.decision).code == 0
        closed = program.ask()
        assert (closed.status, closed.document["error_description"]) == (400, "decision_closed")
        assert program.issued() == 2

        told = (program.ask() for _ in range(2 * REQUESTS_MAX))
        slowed = next(each for each in told if each.status != 400)
        assert (slowed.status, slowed.document["error"]) == (429, "slow_down")
        assert 0 < int(slowed.headers["retry-after"]) <= 900


def test_without_a_token_endpoint_nothing_speaks_of_one(tmp_path: Path) -> None:
    home = Home.made(tmp_path / "home")
    with reachable(home, "--no-worker") as gateway:
        refused = gateway.send(calling(gateway.port, None, tool_call()).raw())
        assert "resource_metadata" not in refused.headers["www-authenticate"]
        assert gateway.get("/.well-known/oauth-protected-resource").status == 404
    assert home.remit("issuer").document["error"]["code"] == "no_token_endpoint"
