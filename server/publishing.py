"""The catalog as configured: which intents this installation offers, with their rules."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Final

from execution.catalog import Catalog
from execution.sagas import publish_article, withdraw_article
from execution.sagas.publish_plan import PublishSettings, SiteRules
from server.config import Config
from server.settings import Require, Site

MAIL_DOMAIN: Final = "remit.invalid"


def catalog_of(config: Config) -> Catalog:
    """Every definition that this process can execute."""
    settings = publish_settings(config)
    return Catalog([publish_article.intent(settings), withdraw_article.intent(settings)])


def policy_hash(config: Config) -> str:
    """Of all rules of publishing, for decisions."""
    rules = asdict(publish_settings(config))
    return hashlib.sha256(json.dumps(rules, sort_keys=True, default=sorted).encode()).hexdigest()


def publish_settings(config: Config) -> PublishSettings:
    """What publishing needs of the configuration."""
    settings = config.settings
    sender = settings.mail.sender if settings.mail else ""
    return PublishSettings(
        sites={name: _rules(site) for name, site in settings.site.items()},
        lists={name: found.recipients for name, found in settings.notify.items() if found.url is None},
        webhooks=frozenset(name for name, found in settings.notify.items() if found.url is not None),
        archive=settings.github is not None,
        pull_request=settings.github is not None and settings.github.pull_request,
        publications=settings.publications is not None,
        monitoring=settings.monitoring is not None,
        monitoring_tags=settings.monitoring.tags if settings.monitoring else (),
        mail=settings.mail is not None,
        mail_domain=sender.rpartition("@")[2] or MAIL_DOMAIN,
        approval_ttl_s=settings.engine.approval_ttl_s,
        deadline_s=settings.engine.saga_deadline_s,
        max_lateness_s=settings.engine.max_lateness_s,
    )


def _rules(site: Site) -> SiteRules:
    wanted = frozenset(name for name in Require.model_fields if getattr(site.require, name))
    cache = site.cloudflare
    return SiteRules(
        system=site.url,
        url=site.public_url,
        require=wanted,
        timezone=site.timezone,
        purge=cache.purge if cache else (),
        purge_batch=cache.batch if cache else 30,
        keeps_description=site.key_strategy == "plugin",
    )
