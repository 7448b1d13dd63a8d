"""What the engine and the sagas need of the world, in their own words.

Adapters implement the system ports; the composition root implements the clock, ids and chance. A modelled system in a
simulation and a stand-in in a test implement the same protocols and pass the same conformance suites.

Every write is a `Prepared` request (execution.core.definition): bytes first, connection second, fence third, send last.
Every read answers a `Sighting` and never raises for what the world does. Every adapter of an external system also
offers `probe()` (execution.ports.probing), by which `remit doctor` finds out whether it could do its work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from execution.core.failures import Receipt
from execution.ports.artifacts import Artifacts
from execution.ports.cache import Cache
from execution.ports.listing import Lists, Marked
from execution.ports.machine import Chance, Clock, Ids
from execution.ports.mail import Mail, Message
from execution.ports.media import Image, MediaLibrary
from execution.ports.monitoring import Check, Monitoring
from execution.ports.probing import Probed, Severity, Symptom
from execution.ports.publications import Incident, PublicationRecord, Publications
from execution.ports.repository import ArchivedFile, ContentVersion, PullRequest, Repository
from execution.ports.webhook import Event, Webhook
from execution.ports.wordpress import Article, WordPress


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything that saga definitions use, composed by hand in the composition root.

    wordpress, media, caches: by site name. recipients, webhooks: configured notification lists by name.
    """

    artifacts: Artifacts
    wordpress: Mapping[str, WordPress] = field(default_factory=dict)
    caches: Mapping[str, Cache] = field(default_factory=dict)
    monitoring: Monitoring | None = None
    media: Mapping[str, MediaLibrary] = field(default_factory=dict)
    repository: Repository | None = None
    publications: Publications | None = None
    mail: Mail | None = None
    recipients: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    webhooks: Mapping[str, Webhook] = field(default_factory=dict)


__all__ = [
    "ArchivedFile",
    "Article",
    "Artifacts",
    "Cache",
    "Chance",
    "Check",
    "Clock",
    "ContentVersion",
    "Event",
    "Ids",
    "Image",
    "Incident",
    "Lists",
    "Mail",
    "Marked",
    "MediaLibrary",
    "Message",
    "Monitoring",
    "Ports",
    "Probed",
    "PublicationRecord",
    "Publications",
    "PullRequest",
    "Receipt",
    "Repository",
    "Severity",
    "Symptom",
    "Webhook",
    "WordPress",
]
