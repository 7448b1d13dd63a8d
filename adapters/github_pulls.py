"""Pull requests of one repository: the second half of `execution.ports.Repository`.

A request carries our marker in its body, as a comment that readers do not see. Opening one is not repeatable by itself:
the service refuses a second one for a branch while the first is open, and that refusal means looking.
"""

from __future__ import annotations

from urllib.parse import quote

from adapters.answers import Reply, Unreadable, parse_object, undocumented
from adapters.github_rest import GitHubReader, Pull, json_body, parse_pull, problem_in, refusal
from adapters.http import HttpSystem
from execution.core.definition import Prepared
from execution.core.failures import (
    Absent,
    Answer,
    CannotTell,
    FailureClass,
    Foreign,
    Landed,
    Lost,
    Present,
    Receipt,
    Refused,
    Sighting,
    Unprepared,
)
from execution.ports import PullRequest


class PullRequests:
    """See the module."""

    def __init__(self, system: HttpSystem, read: GitHubReader, base_branch: str) -> None:
        self._system, self._read, self._base_branch = system, read, base_branch

    def open(self, request: PullRequest) -> Prepared:
        """Open it from the version's branch to the base branch."""
        fields = {
            "title": request.title,
            "body": f"{request.body}\n\n{_comment(request.marker)}",
            "head": request.branch,
            "base": self._base_branch,
        }
        return self._system.write("POST", f"{self._read.path}/pulls", json_body(fields), judge=_opened)

    async def observe(self, request: PullRequest) -> Sighting:
        """Requests from the version's branch, whatever their state."""
        rows = await self._read.pulls(request.branch)
        if isinstance(rows, CannotTell):
            return rows
        ours = sorted((row for row in rows if _comment(request.marker) in row.body), key=lambda row: row.number)
        standing = [row for row in ours if row.state == "open" or row.merged]
        if standing:
            first = standing[0]
            if first.head_sha != request.commit:
                return Foreign(code="pushed_to", receipt=_receipt(first))
            return Present(receipt=_receipt(first), rows=len(standing))
        if ours:
            return Foreign(code="closed", receipt=_receipt(ours[0]))
        if others := [row for row in rows if row.state == "open"]:
            return Foreign(code="not_ours", receipt=_receipt(others[0]))
        return await self._read.authority() or Absent()

    def close(self, number: str) -> Prepared:
        """Close it without merging."""
        if not number.isdecimal():
            raise Unprepared(FailureClass.PERMANENT, "malformed_number")
        path = f"{self._read.path}/pulls/{quote(number)}"
        return self._system.write("PATCH", path, json_body({"state": "closed"}), judge=lambda r: _closed(r, number))

    async def observe_closed(self, number: str, commit: str) -> Sighting:
        """One request, by its number."""
        row = await self._read.pull(number)
        if isinstance(row, CannotTell):
            return row
        if row.merged:
            return Foreign(code="merged", receipt=_receipt(row))
        if row.state == "closed":
            return Present(receipt=_receipt(row))
        return Absent(receipt=_receipt(row)) if row.head_sha == commit else Foreign(code="pushed_to")


def _comment(marker: str) -> str:
    return f"<!-- remit-marker: {marker} -->"


def _receipt(row: Pull) -> Receipt:
    state = "merged" if row.merged else row.state
    return Receipt(resource_id=str(row.number), version=row.head_sha, reference=row.page, data={"state": state})


def _opened(reply: Reply) -> Answer:
    if reply.status == 201:
        return Landed(receipt=_receipt(parse_pull(parse_object(reply.body))))
    problem = problem_in(reply) if reply.status == 422 else None
    if problem is not None and problem.says("a pull request already exists"):
        return Lost(code="already_exists")  # an earlier attempt of ours, or somebody else's: the read-back tells
    if problem is not None and problem.says("no commits between", "head:invalid"):
        return Refused(failure=FailureClass.TRANSIENT, code="not_yet_visible")
    if problem is not None and problem.says("base:invalid"):
        return Refused(failure=FailureClass.PERMANENT, code="base_branch_missing")
    return refusal(reply) or undocumented(reply)


def _closed(reply: Reply, number: str) -> Answer:
    if reply.status != 200:
        return refusal(reply) or undocumented(reply)
    row = parse_pull(parse_object(reply.body))
    if str(row.number) != number:
        raise Unreadable
    return Landed(receipt=_receipt(row)) if row.state == "closed" else Lost(code="not_closed")
