"""What stands in the way of using a repository, in words for the person who sets it up."""

from __future__ import annotations

from typing import Final

from execution.ports import Severity, Symptom

_ADDRESS: Final = "Look at url, owner and repo in remit.toml, and whether the address can be reached from this machine."
_TOKEN: Final = "Give the token access to this repository, with Contents: read and write."  # noqa: S105 (an advice)
_FIXES: Final = {
    "not_authenticated": "Make a new fine-grained token for this repository and put it into the file.",
    "not_authorised": f"{_TOKEN} Whoever it belongs to must be allowed to push.",
    "not_permitted": _TOKEN,
    "base_branch_missing": "Make that branch, or name another in base_branch.",
    "repository_archived": "Unarchive the repository, or name another.",
    "repository_empty": "Make a first commit in the repository: a branch needs something to stand on.",
    "repository_moved": "Name the repository as it is called now.",
    "rate_limited": "Wait, and see what else uses the same account.",
}


def symptom(obstacle: str | None, repository: str, base_branch: str) -> Symptom:
    """`obstacle`: the code of what is wrong; None is a repository that can be used."""
    detail = f"{repository}, base branch {base_branch}"
    if obstacle is None:
        return Symptom(code="repository_ready", detail=detail)
    return Symptom(code=obstacle, severity=Severity.PROBLEM, detail=detail, fix=_FIXES.get(obstacle, _ADDRESS))
