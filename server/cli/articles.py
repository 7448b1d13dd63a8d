"""Articles and what has become of them, for `remit ls --articles`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import RenderableType

from server.cli.output import CommandFailed, Exit, line, table
from server.results import moment

if TYPE_CHECKING:
    from execution.articles import Article
    from server.app import Installation

_COLUMNS = ("site", "article", "is", "version", "since", "address", "under way")


async def listing(at: Installation, site: str | None, limit: int) -> tuple[dict[str, Any], RenderableType]:
    """The document, and what a person sees of it."""
    documents = [_document(found) for found in await at.status.articles(at.tenant, site, limit)]
    known = sorted(at.config.settings.site)
    if not documents and site is not None and site not in known:
        raise CommandFailed(
            "unknown_site", f"There is no site {site} here.", f"Use one of: {', '.join(known)}.", Exit.USAGE
        )
    rows = [
        (d["site"], d["article_id"], d["content"], d["version"], d["since"], d["url"], _coming(d["under_way"]))
        for d in documents
    ]
    return {"articles": documents}, table(_COLUMNS, rows) if rows else line("No articles yet.")


def _coming(under_way: list[dict[str, Any]]) -> str | None:
    return ", ".join(f"v{each['version']} {each['state']} {each['command_id']}" for each in under_way) or None


def _document(article: Article) -> dict[str, Any]:
    return {
        "site": article.site,
        "article_id": article.object_id,
        "content": article.content,
        "version": article.version,
        "command_id": article.command_id,
        "since": moment(article.since_ms),
        "url": article.reference,
        "under_way": [
            {"command_id": each.command_id, "version": each.version, "state": each.state} for each in article.under_way
        ],
    }
