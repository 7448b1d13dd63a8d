"""What `remit.toml` may say: closed, strict models, one per section.

A key that is not listed is refused. Read by `server.config`, which knows files and the environment.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from server.roles import Role

Seconds = float
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
LogLevel = Literal["debug", "info", "warning", "error"]


class Section(BaseModel):
    """A closed part of the file."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class Paced(Section):
    """How much may be asked of this system: exchanges under way at once, and what its plan allows per minute."""

    concurrent: int = Field(default=8, ge=1, le=1_000)
    per_minute: float | None = Field(default=None, gt=0, le=1_000_000)
    burst: int = Field(default=1, ge=1, le=100_000)


class Timed(Paced):
    """How late a request to this system can still take effect; see `execution.core.quiescence`.

    `max_run_s` has no default: while nobody says what limits a request's run time, nothing in doubt is ever sent again
    and a person is asked instead.
    """

    max_run_s: Seconds | None = Field(default=None, ge=0, le=86_400)
    max_run_source: str = ""
    incomplete_s: Seconds | None = Field(default=None, ge=0, le=86_400)
    incomplete_source: str = ""
    transit_s: Seconds = Field(default=60.0, ge=0, le=86_400)
    pause_s: Seconds = Field(default=2.0, ge=0, le=86_400)
    stale_s: Seconds = Field(default=5.0, ge=0, le=86_400)
    clock_s: Seconds = Field(default=2.0, ge=0, le=86_400)


class Installation(Section):
    """Which journal this is: part of every marker that it leaves in other systems."""

    id: str


class GatewaySection(Section):
    """Whose tokens are believed. `audience` is this gateway's own name; `jwks` the issuer's public keys."""

    issuer: str
    audience: str
    tenant: str
    jwks: str = "keys/jwks.json"
    token_file: str | None = None


class IssuerSection(Section):
    """Present only where tokens are issued. `key_file` holds the private key; its stem is the key's id."""

    key_file: str
    token_ttl_s: int = Field(default=900, gt=0, le=900)


class ClientSection(Section):
    """A program that fetches its tokens itself (OAuth 2.1, client credentials), as `client:NAME`.

    public_key_file: PEM, Ed25519 or P-256. decision: under which it acts; its budget counts every token. uses, open,
    repeat: the most that one token of it allows.
    """

    public_key_file: str
    decision: str
    uses: int = Field(default=1, ge=1, le=1_000_000)
    open: int = Field(default=1, ge=1, le=1_000_000)
    repeat: bool = False


class OperatorSection(Section):
    """A person who acts here. `key` is the public half (`ed25519:…`); `aliases` are agents they also act as; `roles`
    (`server.roles`) are what they may do: everything, unless it is said."""

    key: str
    aliases: tuple[str, ...] = ()
    roles: tuple[Role, ...] = tuple(Role)


class Require(Section):
    """Which optional fields the validation gate insists on."""

    title: bool = True
    meta_description: bool = False
    structured_data: bool = False
    sources: bool = False
    featured_image: bool = False
    links_https: bool = False


class CloudflareSection(Timed):
    """The cache in front of a site. The token needs the permission Cache Purge for this zone and nothing else.

    purge: addresses to forget after a publication; `{url}` in one stands for the article's own address, and the one of
    the version before. batch: how many go into one request; plan_limit: how many the plan allows. verify: this machine
    can open the public pages, to see whether old copies are still served.
    """

    zone: str = Field(pattern="^[0-9a-f]{32}$")
    token_file: str | None = None
    token_env: str | None = None
    url: str = "https://api.cloudflare.com"
    purge: tuple[str, ...] = Field(default=("{url}",), min_length=1)
    batch: int = Field(default=30, ge=1)
    plan_limit: int = Field(default=100, ge=1, le=500)
    verify: bool = True
    max_run_s: Seconds | None = Field(default=60.0, ge=0, le=86_400)
    max_run_source: str = "assumed: a purge that comes later only makes pages be fetched again"


class Site(Timed):
    """One WordPress site. The password is an application password of an editor."""

    url: str
    user: str
    password_file: str | None = None
    password_env: str | None = None
    key_strategy: Literal["slug", "plugin"] = "slug"
    public_url: str = Field(default="", description="address of an article, with {slug} in it")
    timezone: str = Field(default="", description="in which people of that site read times, e.g. Europe/Berlin")
    spacing_s: Seconds = Field(
        default=60.0, ge=0, le=86_400, description="least distance of two scheduled publications"
    )
    require: Require = Require()
    cloudflare: CloudflareSection | None = None


class PublicationsSection(Timed):
    """The SQL table of publications. A URL with a password belongs into `url_file` or `url_env`."""

    url: str | None = None
    url_file: str | None = None
    url_env: str | None = None


class GithubSection(Timed):
    """The repository that keeps every version, a branch for each. The token is a fine-grained one for it alone.

    `url` is the address of the REST interface. Three requests make a branch; the last of them begins at most `within_s`
    after its permission to write. `incomplete_s` is how long the service waits for the next request of a connection,
    too. GitHub asks to be written to by one at a time.
    """

    concurrent: int = Field(default=1, ge=1, le=1_000)

    owner: str
    repo: str
    base_branch: str = "main"
    folder: str = "remit"
    author_name: str = "Remit"
    author_email: str = "remit@remit.invalid"
    pull_request: bool = False
    url: str = "https://api.github.com"
    within_s: Seconds = Field(default=10.0, gt=0, le=60)
    token_file: str | None = None
    token_env: str | None = None


class MonitoringSection(Timed):
    """What watches published pages: a table of checks in a database (`url` as in `[publications]`), or a Healthchecks
    service (`url` is its address, the key a project's read-write API key)."""

    kind: Literal["sql", "healthchecks"] = "sql"
    url: str | None = None
    url_file: str | None = None
    url_env: str | None = None
    api_key_file: str | None = None
    api_key_env: str | None = None
    tags: tuple[Annotated[str, Field(pattern=r"^\S{1,50}$")], ...] = Field(default=(), max_length=5)


class MailSection(Timed):
    """The relay that takes notifications."""

    host: str
    port: int = Field(default=25, gt=0, le=65_535)
    sender: str
    user: str | None = None
    password_file: str | None = None
    password_env: str | None = None
    tls: Literal["none", "starttls", "tls"] = "none"


class NotifyList(Timed):
    """A named list: either mail `recipients`, or a receiver of webhooks. Proposals name lists, never addresses.

    url: the receiver's address, https, or http on this machine. secret_file, secret_env: `whsec_…`, known to it too.
    private: its address may be one of a private network. The times are those of the receiver.
    """

    recipients: tuple[str, ...] = Field(default=(), max_length=50)
    url: str | None = None
    secret_file: str | None = None
    secret_env: str | None = None
    private: bool = False


class EngineSection(Section):
    """Leases, sweeps, deadlines. `max_lateness_s`: a schedule missed by more than this asks a person.

    `time_scale` multiplies every wait and every limit of the sandbox; below 1 it is for demonstrations, and refused
    unless the sandbox stands for the outside world: real systems do not run faster because we would like it.
    """

    lease_s: Seconds = Field(default=30.0, gt=0, le=3600)
    renew_s: Seconds = Field(default=10.0, gt=0, le=3600)
    sweep_s: Seconds = Field(default=1.0, gt=0, le=60)
    approval_ttl_s: Seconds = Field(default=72 * 3600.0, gt=0)
    saga_deadline_s: Seconds = Field(default=7 * 86_400.0, gt=0)
    max_lateness_s: Seconds = Field(default=3_600.0, gt=0)
    time_scale: float = Field(default=1.0, ge=0.01, le=1.0)


class AuditSection(Section):
    """Comparing what the journal calls done with what is really there. Without `every_h` only `remit audit` does it.

    notify: lists that are told what is new. Whatever is found becomes a question for a person (`remit review ls`).
    """

    every_h: float | None = Field(default=None, gt=0, le=24 * 30)
    window_days: float = Field(default=7.0, gt=0, le=365)
    commands_max: int = Field(default=500, gt=0, le=500)
    pace_s: Seconds = Field(default=0.5, ge=0, le=60)
    review_old_days: float = Field(default=3.0, gt=0, le=365)
    stuck_min: float = Field(default=15.0, gt=0)
    notify: tuple[str, ...] = ()


class CheckpointsSection(Section):
    """Signed statements about the whole journal, for `remit verify` and for others.

    `file` best lies where nobody who can write the database can write; a worker appends to it every `every_s` while the
    journal grows. `public_file` is for whoever checks.
    """

    file: str | None = None
    every_s: Seconds = Field(default=5.0, ge=1, le=86_400)
    key_file: str = "secrets/checkpoint.pem"
    public_file: str = "checkpoints/journal.pub"


class SandboxSection(Section):
    """Stand-ins for the outside world on this machine; `remit serve` starts them when `start` is true."""

    start: bool = False
    http_port: int = Field(default=0, ge=0, le=65_535)
    smtp_port: int = Field(default=0, ge=0, le=65_535)
    state: str = "sandbox/state.db"


class ListenerSection(Section):
    """An HTTP address of ours. TLS is a front's business.

    Every request names a host and perhaps an origin; those that are not listed are refused. Entries may end in `:*` for
    any port. On a loopback address the loopback names are allowed by themselves; elsewhere `allowed_hosts` must be set.
    """

    enabled: bool = False
    host: str = "127.0.0.1"
    port: int = Field(ge=0, le=65_535)
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    def hosts(self) -> tuple[str, ...]:
        """The Host headers that pass."""
        own = tuple(f"{name}{port}" for name in _LOOPBACK_NAMES for port in ("", ":*")) if self.local else ()
        return (*own, *self.allowed_hosts)

    def origins(self) -> tuple[str, ...]:
        """The Origin headers that pass; a request without one always does."""
        own = tuple(f"http://{name}{port}" for name in _LOOPBACK_NAMES for port in ("", ":*")) if self.local else ()
        return (*own, *self.allowed_origins)


class HttpSection(ListenerSection):
    """MCP over Streamable HTTP. `public_url`: the address that clients use, when a front is before it."""

    port: int = Field(default=8765, ge=0, le=65_535)
    path: str = Field(default="/mcp", pattern=r"^/[a-z0-9][a-z0-9/_-]{0,63}$")
    public_url: str | None = None

    def url(self) -> str | None:
        """Where clients reach it; None when only its front's owner could say."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or (f"http://{host}:{self.port}{self.path}" if self.local else None)


class TokenEndpointSection(ListenerSection):
    """Where registered clients fetch tokens: `remit issuer`. The gateway then tells clients about it (RFC 9728).

    `public_url`: the address that clients use when a front is before it; `[gateway] issuer` is the same.
    """

    port: int = Field(default=8766, ge=0, le=65_535)
    public_url: str | None = None

    def url(self) -> str:
        """The issuer's identifier, under which it is reached."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or f"http://{host}:{self.port}"


class MetricsSection(ListenerSection):
    """Figures for Prometheus, of everybody who works on this journal; exported by `serve` over HTTP."""

    port: int = Field(default=9464, ge=0, le=65_535)


class TracesSection(Section):
    """Where spans go: an OTLP endpoint, for example http://127.0.0.1:4318/v1/traces. Needs the extra `traces`."""

    endpoint: str | None = Field(default=None, pattern=r"^https?://[!-~]+$")


class LogSection(Section):
    """How much is written to stderr."""

    level: LogLevel = "info"


class Settings(Section):
    """The whole file."""

    installation: Installation
    gateway: GatewaySection
    issuer: IssuerSection | None = None
    operator: dict[str, OperatorSection] = Field(default_factory=dict)
    client: dict[str, ClientSection] = Field(default_factory=dict)
    site: dict[str, Site] = Field(default_factory=dict)
    github: GithubSection | None = None
    publications: PublicationsSection | None = None
    monitoring: MonitoringSection | None = None
    mail: MailSection | None = None
    notify: dict[str, NotifyList] = Field(default_factory=dict)
    engine: EngineSection = EngineSection()
    audit: AuditSection = AuditSection()
    checkpoints: CheckpointsSection = CheckpointsSection()
    sandbox: SandboxSection = SandboxSection()
    http: HttpSection = HttpSection()
    token_endpoint: TokenEndpointSection = TokenEndpointSection()
    metrics: MetricsSection = MetricsSection()
    traces: TracesSection = TracesSection()
    log: LogSection = LogSection()
