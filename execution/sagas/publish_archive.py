"""The steps in the repository: each version on a branch of its own, before anything else is made of it.

The branch holds what was proposed, what a site is to store, and the metadata that people approved, and stays when the
publication goes through. When it does not, the branch is deleted again, unless somebody pushed to it. A pull request,
where the configuration wants one, is a step of its own: it is opened after the branch and closed before it.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from execution.core.command import Context
from execution.core.definition import Action, LookupContract, Prepared, Step
from execution.core.events import canonical
from execution.core.failures import FailureClass, Receipt, Sighting, Unprepared
from execution.core.retry import RetryPolicy
from execution.core.states import EffectClass, Repeat
from execution.ports import ArchivedFile, ContentVersion, Ports, PullRequest, Repository
from execution.sagas.publish_params import PublishParams, artifact_ref, content_of, generation_of, resource
from execution.sagas.vanishing import once_told

SYSTEM: Final = "github"
ARCHIVE: Final = "ARCHIVE_CONTENT_VERSION"
DELETE: Final = "DELETE_ARCHIVE_BRANCH"
REQUEST: Final = "OPEN_ARCHIVE_PULL_REQUEST"
CLOSE: Final = "CLOSE_ARCHIVE_PULL_REQUEST"
DEADLINE_S: Final = 30.0
"""Three requests, the first with the content in it."""
_RETRY: Final = RetryPolicy(attempts_max=5, base_s=2.0)
_SUFFIXES: Final = {"markdown": "md", "html": "html", "blocks": "html"}
_METADATA: Final = (
    *("site", "article_id", "version", "title", "slug", "url", "excerpt", "meta_description", "categories", "tags"),
    *("sources", "structured_data", "featured_image", "publish_at", "content_format", "content_bytes"),
    *("content_sha256", "source_sha256", "policy_version"),
)
"""What is kept of the parameters. Nobody's address: a repository is read by more people than a list of recipients."""

_MAY_WRITE: Final = (
    "a token that may write to the repository and sees its base branch: what it does not see is not there"
)
_UNCACHED: Final = "authenticated, Cache-Control: no-cache; a replica's lag is declared as staleness"
_BRANCH: Final = LookupContract(
    strength="strong",
    covers="the one branch of that name, whoever made it, and whose commit stands at its head",
    authority=_MAY_WRITE,
    cache_bypass=_UNCACHED,
)
_PULLS: Final = LookupContract(
    strength="strong",
    covers="every pull request from the version's branch, open or not, whoever opened it",
    authority=_MAY_WRITE,
    cache_bypass=_UNCACHED,
)


def _repository(ports: Ports) -> Repository:
    if ports.repository is None:
        raise Unprepared(FailureClass.PERMANENT, "repository_not_configured")
    return ports.repository


def place_of(context: Context) -> str:
    """Names the version inside the repository: `blog/article-0028/v1`, a repetition with its generation behind it."""
    params = PublishParams.of(context.params)
    suffix = generation_of(context.key).replace("#", "-")
    return f"{params.site}/{params.article_id}/v{params.version}{suffix}"


def branch_of(context: Context) -> str:
    """The version's branch. What git allows in no name (`a..b`, `a.`, `a.lock`) is spelt so that it stays itself."""
    return "/".join(("remit", *(_branch_part(part) for part in place_of(context).split("/"))))


def _branch_part(name: str) -> str:
    forbidden = ".." in name or name.endswith((".", ".lock"))
    return name.replace(".", "=2e") if forbidden else name


async def version_of(ports: Ports, context: Context) -> ContentVersion:
    """Everything that is kept, from frozen parameters and content: the same on every try."""
    params, place = PublishParams.of(context.params), place_of(context)
    source = await ports.artifacts.get(artifact_ref(params.source_sha256))
    if hashlib.sha256(source).hexdigest() != params.source_sha256:
        raise Unprepared(FailureClass.PERMANENT, "artifact_altered")
    return ContentVersion(
        marker=context.marker,
        branch=branch_of(context),
        subject=f"Archive {place}",
        date_s=context.accepted_at_ms // 1000,
        files=(
            ArchivedFile(path=f"{place}/source.{_SUFFIXES[params.content_format]}", content=source.decode()),
            ArchivedFile(path=f"{place}/content.html", content=await content_of(ports.artifacts, params)),
            ArchivedFile(path=f"{place}/metadata.json", content=canonical(_metadata(context))),
        ),
    )


def _metadata(context: Context) -> dict[str, Any]:
    kept = {name: context.params[name] for name in _METADATA}
    return {**kept, "proposal_hash": PublishParams.of(context.params).proposal_hash, "command_id": context.root_id}


def _archived(context: Context) -> Receipt:
    receipt = context.receipts.get(ARCHIVE)
    if receipt is None:
        raise Unprepared(FailureClass.PERMANENT, "archive_missing")
    return receipt


def _expected_commit(context: Context) -> str:
    """The head that must still stand when the version is taken back. A ruling may have moved it."""
    return context.expected_version or _archived(context).version


async def _archive(ports: Ports, context: Context) -> Prepared:
    return await _repository(ports).archive(await version_of(ports, context))


async def _find_archived(ports: Ports, context: Context) -> Sighting:
    known = context.receipts.get(ARCHIVE)
    version = await version_of(ports, context)
    return await _repository(ports).observe_archived(version, known_commit=known.version if known else None)


async def _verify_archived(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    version = await version_of(ports, context)
    return await _repository(ports).observe_archived(version, known_commit=receipt.version)


async def _delete(ports: Ports, context: Context) -> Prepared:
    return _repository(ports).delete_branch(branch=_archived(context).resource_id)


async def _find_deleted(ports: Ports, context: Context) -> Sighting:
    branch, commit = _archived(context).resource_id, _expected_commit(context)
    return once_told(await _repository(ports).observe_deleted(branch=branch, commit=commit), context, DELETE)


async def _verify_deleted(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_deleted(ports, context)


def request_of(context: Context) -> PullRequest:
    """A summary: whoever wants the content looks at the branch. Texts of the proposal are quoted, so that none of them
    mentions anybody or refers to anything."""
    params, archived = PublishParams.of(context.params), _archived(context)
    lines = (
        f"Version {params.version} of `{params.article_id}` for the site `{params.site}`.",
        f"* title: `{params.title.replace('`', chr(39))}`",
        f"* content: {params.content_bytes} bytes, SHA-256 `{params.content_sha256}`",
        f"* proposal: `{params.proposal_hash}`",
        f"* command: `{context.root_id}`",
    )
    return PullRequest(
        marker=context.marker,
        branch=archived.resource_id,
        commit=archived.version,
        title=f"Archive {place_of(context)}",
        body="\n\n".join((lines[0], "\n".join(lines[1:]))),
    )


def _requested(context: Context) -> Receipt:
    receipt = context.receipts.get(REQUEST)
    if receipt is None:
        raise Unprepared(FailureClass.PERMANENT, "pull_request_missing")
    return receipt


async def _open(ports: Ports, context: Context) -> Prepared:
    return _repository(ports).open_pull_request(request_of(context))


async def _find_request(ports: Ports, context: Context) -> Sighting:
    return await _repository(ports).observe_pull_request(request_of(context))


async def _verify_request(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_request(ports, context)


async def _close(ports: Ports, context: Context) -> Prepared:
    return _repository(ports).close_pull_request(number=_requested(context).resource_id)


async def _find_closed(ports: Ports, context: Context) -> Sighting:
    expected = context.expected_version or _requested(context).version
    return await _repository(ports).observe_closed(number=_requested(context).resource_id, commit=expected)


async def _verify_closed(ports: Ports, context: Context, receipt: Receipt) -> Sighting:
    return await _find_closed(ports, context)


ARCHIVE_CONTENT_VERSION: Final[Step[Ports]] = Step(
    name=ARCHIVE,
    effect=EffectClass.COMPENSABLE,
    action=Action(
        system=SYSTEM,
        operation="archive",
        forward=_archive,
        observe=_find_archived,
        verify=_verify_archived,
        adopts=False,
        repeat=Repeat.BY_KEY,
        retry=_RETRY,
        deadline_s=DEADLINE_S,
        lookup=_BRANCH,
    ),
    compensation=Action(
        system=SYSTEM,
        operation="delete_branch",
        forward=_delete,
        observe=_find_deleted,
        verify=_verify_deleted,
        repeat=Repeat.NEVER,
        retry=_RETRY,
        lookup=_BRANCH,
    ),
    compensation_type=DELETE,
    compensable_while="nobody pushed to the branch",
    resource=resource,
    when=lambda params: bool(params["archive"]),
    receipt_columns=("commit_sha", "branch", "artifact_hash"),
    summary="keep the version in the repository, on a branch of its own",
    manual="look for the branch remit/SITE/ARTICLE/vN; delete it when nothing was published and nobody pushed to it",
)

OPEN_ARCHIVE_PULL_REQUEST: Final[Step[Ports]] = Step(
    name=REQUEST,
    effect=EffectClass.COMPENSABLE,
    action=Action(
        system=SYSTEM,
        operation="open_pull_request",
        forward=_open,
        observe=_find_request,
        verify=_verify_request,
        adopts=False,
        repeat=Repeat.NEVER,
        retry=_RETRY,
        lookup=_PULLS,
    ),
    compensation=Action(
        system=SYSTEM,
        operation="close_pull_request",
        forward=_close,
        observe=_find_closed,
        verify=_verify_closed,
        repeat=Repeat.NEVER,
        retry=_RETRY,
        lookup=_PULLS,
    ),
    compensation_type=CLOSE,
    compensable_while="it is not merged, and nobody pushed to its branch",
    resource=resource,
    when=lambda params: bool(params["pull_request"]),
    receipt_columns=("state",),
    summary="ask for the version's branch to be merged",
    manual="look at the pull requests of the branch remit/SITE/ARTICLE/vN; close it when nothing was published",
)
