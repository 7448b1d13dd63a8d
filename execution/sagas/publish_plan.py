"""From a proposal to frozen parameters. Pure: configuration comes in as a value, nothing else is asked.

Whatever is wrong and can be known here is refused here, before anything happened, with the field, its limit and what it
was. What a person might wave through (a missing description, a hidden character in a title) is left to the validation
gate. An article keeps its address: without a `slug` a later version takes the one under which the last is live.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from capabilities.identifiers import is_segment
from execution.catalog import Plan, Previous
from execution.content import FORMATS, ContentRefused, Rendered, render, with_structured_data
from execution.core.events import canonical
from execution.hidden import suspicious_characters
from execution.images import IMAGE_BYTES_MAX, image_type
from execution.moments import NotAMoment, instant, shown_in, zone_named
from execution.proposal import IntakeRefused, Proposal, Stored
from execution.sagas.publish_params import Mode, PublishParams, artifact_ref
from execution.sagas.purging import BATCHES_MAX, batches_at_most, planned
from execution.slugs import is_slug, slugify

CONTENT_BYTES_MAX: Final = 1_048_576
STORED_BYTES_MAX: Final = 8_388_608
"""Of what a site is to store: Markdown grows when it is rendered."""
TITLE_CHARS_MAX: Final = 200
STRUCTURED_BYTES_MAX: Final = 65_536
HIDDEN_LISTED_MAX: Final = 50
_DESCRIPTION_LOST: Final = (
    "This site has no place for meta_description: the approver sees it, readers and search engines do not.",
)
LIMITS: Final[Mapping[str, int]] = {"excerpt": 1_000, "meta_description": 320}
"""Characters of the optional texts."""
COUNTS: Final[Mapping[str, int]] = {"categories": 30, "tags": 30, "sources": 50, "notify": 10}
"""Entries of the optional lists."""
WEBHOOKS_MAX: Final = 1
REQUIRABLE: Final = frozenset(
    {"featured_image", "links_https", "meta_description", "sources", "structured_data", "title"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRules:
    """One site. system: where it is written to. url: an article's address with `{slug}` in it; empty: not known.
    require: what its gate insists on. timezone: in which people there read times; empty: UTC alone is shown. purge:
    what the cache in front of it is to forget, as `execution.sagas.purging` reads it; empty: there is none.
    keeps_description: it has a place for a meta description.
    """

    system: str = ""
    url: str = ""
    require: frozenset[str] = frozenset({"title"})
    timezone: str = ""
    purge: tuple[str, ...] = ()
    purge_batch: int = 30
    keeps_description: bool = False

    def __post_init__(self) -> None:
        if self.require - REQUIRABLE:
            raise ValueError(f"a site cannot require {sorted(self.require - REQUIRABLE)}")
        if batches_at_most(self.purge, self.purge_batch) > BATCHES_MAX:
            raise ValueError("more addresses to purge than the steps of a publication can name")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """What publishing needs of the configuration.

    lists: addresses by list name; webhooks: names of lists that are receivers. archive, publications, monitoring, mail:
    whether those systems are configured. pull_request: whether an archived version asks to be merged. mail_domain:
    right side of Message-IDs. policy_version: of the rules above, shown to approvers. The times are those of the saga.
    """

    sites: Mapping[str, SiteRules]
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    webhooks: frozenset[str] = frozenset()
    archive: bool = False
    pull_request: bool = False
    publications: bool = False
    monitoring: bool = False
    monitoring_tags: tuple[str, ...] = ()
    mail: bool = False
    mail_domain: str = "remit.invalid"
    policy_version: str = "1"
    approval_ttl_s: float = 72 * 3_600.0
    deadline_s: float = 7 * 86_400.0
    max_lateness_s: float = 3_600.0


def policy(settings: PublishSettings, params: Mapping[str, Any]) -> str:
    """The hash of what the configuration says about such a plan: where its site is and what its gate insists on, and
    who is behind the lists that it names. Other sites, other lists, times and limits do not concern it."""
    rules = settings.sites.get(params["site"])
    named = params.get("notify", ())
    judged = {
        "system": None if rules is None else rules.system,
        "require": None if rules is None else sorted(rules.require),
        "lists": {name: settings.lists.get(name) for name in named if name not in settings.webhooks},
        "webhooks": sorted(settings.webhooks.intersection(named)),
        "version": settings.policy_version,
    }
    return hashlib.sha256(canonical(judged).encode()).hexdigest()


def plan(settings: PublishSettings, proposal: Proposal, content_sha256: str, previous: Previous) -> Plan:
    """The plan of one publication. `proposal.content` holds the bytes, of a `payload_ref` too. Raises IntakeRefused."""
    arguments = proposal.arguments
    rules = _rules(settings, proposal)
    _check_text(arguments)
    content, rendered = _rendered(proposal, content_sha256)
    mode, base_version = _mode(arguments, proposal.version, previous)
    title, slug = _title(arguments), _slug(arguments, previous)
    publish_at, image = _publish_at(arguments), _image(proposal)
    frozen = PublishParams(
        site=proposal.site,
        article_id=proposal.object_id,
        version=proposal.version,
        mode=mode,
        title=title,
        slug=slug,
        url=rules.url.replace("{slug}", slug),
        content_format=_format(arguments),
        source_sha256=content_sha256,
        content_sha256=hashlib.sha256(content).hexdigest(),
        content_bytes=len(content),
        removed=rendered.removed,
        hidden=_hidden({"title": title, "excerpt": _text(arguments, "excerpt"), "content": content.decode()}),
        excerpt=_text(arguments, "excerpt"),
        meta_description=_text(arguments, "meta_description"),
        categories=_list(arguments, "categories"),
        tags=_list(arguments, "tags"),
        structured_data=arguments.get("structured_data"),
        sources=_list(arguments, "sources"),
        featured_image=None if image is None else artifact_ref(image.sha256),
        image_sha256="" if image is None else image.sha256,
        image_type="" if image is None else image_type(image.head) or "",
        image_bytes=0 if image is None else image.size,
        publish_at=None if publish_at is None else publish_at.isoformat().replace("+00:00", "Z"),
        publish_at_local=_local(publish_at, rules),
        notify=_list(arguments, "notify"),
        recipients=_recipients(settings, _list(arguments, "notify")),
        webhook=_webhook(settings, _list(arguments, "notify")),
        mail_domain=settings.mail_domain,
        post_id=None if mode is Mode.FIRST else previous.post_id,
        base_version=base_version,
        base={} if mode is Mode.FIRST else _base(previous),
        archive=settings.archive,
        pull_request=settings.archive and settings.pull_request,
        publications=settings.publications,
        purge=planned(rules.purge, previous.url),
        purge_batch=rules.purge_batch,
        monitoring=settings.monitoring,
        monitoring_tags=settings.monitoring_tags,
        require=tuple(sorted(rules.require)),
        policy_version=settings.policy_version,
    )
    return Plan(
        params=frozen.to_json(),
        resources=(frozen.resource, f"slug/{frozen.site}/{frozen.slug}"),
        not_before_ms=None if publish_at is None else _milliseconds(publish_at),
        base_version=base_version,
        artifacts={artifact_ref(frozen.content_sha256): content},
        notes=_DESCRIPTION_LOST if frozen.meta_description and not rules.keeps_description else (),
    )


def _rules(settings: PublishSettings, proposal: Proposal) -> SiteRules:
    if not is_segment(proposal.site) or not is_segment(proposal.object_id):
        raise IntakeRefused("invalid_name", field="article_id" if is_segment(proposal.site) else "site")
    if proposal.site not in settings.sites:
        raise IntakeRefused("unknown_site", field="site")
    if proposal.version < 1:
        raise IntakeRefused("stale_version", field="version", limit=1, actual=proposal.version)
    return settings.sites[proposal.site]


def _check_text(arguments: Mapping[str, Any]) -> None:
    """Everything that is journaled must be Unicode that can be written down, and numbers finite."""
    try:
        canonical(arguments).encode()
        structured = len(canonical(arguments.get("structured_data")).encode())
    except (TypeError, ValueError):
        raise IntakeRefused("invalid_text") from None
    _at_most("structured_data", structured, STRUCTURED_BYTES_MAX)
    for name, limit in LIMITS.items():
        _at_most(name, len(_text(arguments, name)), limit)
    for name, limit in COUNTS.items():
        _at_most(name, len(_list(arguments, name)), limit)


def _at_most(name: str, actual: int, limit: int) -> None:
    if actual > limit:
        raise IntakeRefused("too_long", field=name, limit=limit, actual=actual)


def _format(arguments: Mapping[str, Any]) -> str:
    chosen = arguments.get("content_format") or "markdown"
    if chosen not in FORMATS:
        raise IntakeRefused("invalid_format", field="content_format")
    return str(chosen)


def _rendered(proposal: Proposal, content_sha256: str) -> tuple[bytes, Rendered]:
    """The bytes that the site is to store, and how they came about."""
    if proposal.content is None:
        raise IntakeRefused("payload_missing", field="payload_ref")
    assert hashlib.sha256(proposal.content).hexdigest() == content_sha256
    _at_most("content", len(proposal.content), CONTENT_BYTES_MAX)
    chosen = _format(proposal.arguments)
    try:
        rendered = render(proposal.content, chosen)
    except ContentRefused as refused:
        raise IntakeRefused(f"content_{refused.code}", field="content") from None
    stored = with_structured_data(rendered.html, proposal.arguments.get("structured_data"), chosen)
    _at_most("content", len(stored.encode()), STORED_BYTES_MAX)
    return stored.encode(), rendered


def _image(proposal: Proposal) -> Stored | None:
    """The featured image, told by its first bytes."""
    image = proposal.stored.get("featured_image")
    if image is None and proposal.arguments.get("featured_image") is not None:
        raise IntakeRefused("payload_missing", field="featured_image")
    if image is None:
        return None
    _at_most("featured_image", image.size, IMAGE_BYTES_MAX)
    if image_type(image.head) is None:
        raise IntakeRefused("not_an_image", field="featured_image")
    return image


def _title(arguments: Mapping[str, Any]) -> str:
    """In normal form C and trimmed, as every site stores it."""
    title = unicodedata.normalize("NFC", _text(arguments, "title")).strip()
    if len(title.splitlines()) != 1:
        raise IntakeRefused("invalid_title", field="title")
    _at_most("title", len(title), TITLE_CHARS_MAX)
    return title


def _slug(arguments: Mapping[str, Any], previous: Previous) -> str:
    given = _text(arguments, "slug")
    if given and not is_slug(given):
        raise IntakeRefused("invalid_slug", field="slug")
    return given or _live_slug(previous) or slugify(_text(arguments, "title"))


def _live_slug(previous: Previous) -> str:
    last = urlsplit(previous.url or "").path.rstrip("/").rpartition("/")[2]
    return next((slug for slug in (previous.slug or "", last) if previous.version and is_slug(slug)), "")


def _mode(arguments: Mapping[str, Any], version: int, previous: Previous) -> tuple[Mode, str | None]:
    """What the pivot writes over, and the version that must still be there then."""
    given = _text(arguments, "base_version") or None
    if version < previous.version or (previous.live and version == previous.version):
        raise IntakeRefused("stale_version", field="version", limit=previous.version + 1, actual=version)
    if previous.version == 0 or (previous.post_id is None and not previous.live):
        if given is not None:
            raise IntakeRefused("base_version_unknown", field="base_version")
        return Mode.FIRST, None
    base_version = given or previous.external_version
    if previous.post_id is None or not base_version:
        raise IntakeRefused("base_version_required", field="base_version")
    return (Mode.UPDATE if previous.live else Mode.REPUBLISH), base_version


def _base(previous: Previous) -> dict[str, str]:
    """What was approved for the post that is to be written over; empty when we no longer know."""
    known = {name: previous.plan.get(name) for name in ("title", "excerpt", "content_sha256")}
    return {name: text for name, text in known.items() if isinstance(text, str)}


def _publish_at(arguments: Mapping[str, Any]) -> datetime | None:
    """When to publish, in UTC."""
    given = _text(arguments, "publish_at")
    if not given:
        return None
    try:
        return instant(given)
    except NotAMoment as error:
        raise IntakeRefused(error.code, field="publish_at") from None


def _local(publish_at: datetime | None, rules: SiteRules) -> str | None:
    """The same as the site's own clock shows it."""
    if publish_at is None or not rules.timezone:
        return None
    return shown_in(publish_at, zone_named(rules.timezone))


def _milliseconds(moment: datetime) -> int:
    """Unix milliseconds, rounded up: never early."""
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + -(-since.microseconds // 1000)


def _recipients(settings: PublishSettings, names: Iterable[str]) -> tuple[str, ...]:
    """The addresses of those mail lists, each once; the first spelling of an address counts."""
    unique: dict[str, str] = {}
    for name in names:
        if name in settings.webhooks:
            continue
        if not settings.mail:
            raise IntakeRefused("mail_not_configured", field="notify")
        if name not in settings.lists:
            raise IntakeRefused("unknown_list", field="notify")
        for address in settings.lists[name]:
            unique.setdefault(address.strip().casefold(), address.strip())
    return tuple(unique.values())


def _webhook(settings: PublishSettings, names: Iterable[str]) -> str:
    """The one list among them that is a receiver; a publication tells one program at most."""
    found = [name for name in names if name in settings.webhooks]
    if len(found) > WEBHOOKS_MAX:
        raise IntakeRefused("too_many_webhooks", field="notify", limit=WEBHOOKS_MAX, actual=len(found))
    return "".join(found)


def _hidden(texts: Mapping[str, str]) -> tuple[str, ...]:
    found = [
        f"{where}:{one.position} {one.name}" for where, text in texts.items() for one in suspicious_characters(text)
    ]
    return tuple(found[:HIDDEN_LISTED_MAX])


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if value is not None and not isinstance(value, str):
        raise IntakeRefused("invalid_text", field=name)
    return value or ""


def _list(arguments: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of texts, each once, in the order given."""
    value = arguments.get(name) or ()
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise IntakeRefused("invalid_text", field=name)
    return tuple(dict.fromkeys(value))
