"""Does a status tell the truth? Its every claim and denial, compared with what is really in the external systems."""

import email
import email.policy
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from execution.core.command import Saga
from execution.proposal import CommandView

TERMINAL: Final = frozenset({"SUCCESS", "FAILED", "COMPENSATED"})


@dataclass(frozen=True, slots=True)
class Reality:
    """The effects, counted where they are."""

    posts: Mapping[str, Mapping[str, Any]]
    writes: Mapping[str, int]
    messages: tuple[Mapping[str, Any], ...]
    rows: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, effects: Mapping[str, Any], rows: list[dict[str, Any]]) -> "Reality":
        posts = {str(post["id"]): post for post in effects["posts"]}
        return cls(posts, effects["writes"], tuple(effects["messages"]), tuple(rows))

    @property
    def live(self) -> list[Mapping[str, Any]]:
        return [post for post in self.posts.values() if post["status"] == "publish"]

    def with_status(self, status: str) -> list[Mapping[str, Any]]:
        return [post for post in self.posts.values() if post["status"] == status]

    def status_of(self, post_id: str | None) -> str:
        post = self.posts.get(post_id or "")
        return "none" if post is None else str(post["status"])

    def shows(self, saga: Saga) -> bool:
        """Whether readers of the site see this version: its very text, in a post of its own."""
        plan = json.loads(saga.root.params)["plan"]
        draft = saga.named("CREATE_WORDPRESS_DRAFT")
        own = {plan["post_id"], draft.external_resource_id if draft is not None else None}
        return any(_is(post["content"], plan) and str(post["id"]) in own for post in self.live)

    def row(self, saga: Saga) -> str:
        """The status of this version's row in the customer's table."""
        return next((str(r["status"]) for r in self.rows if r["command_id"] == saga.root.command_id), "none")

    def mails(self, saga: Saga) -> int:
        """Messages about this version that the relay accepted."""
        said = f"{saga.root.object_id}, version {saga.root.object_version}, on {saga.root.site}"
        return sum(1 for message in self.messages if said in _text_of(message["content"]))


@lru_cache(maxsize=64)
def _text_of(mail: str) -> str:
    return str(email.message_from_string(mail, policy=email.policy.default).get_content())


def _is(content: str, plan: Mapping[str, Any]) -> bool:
    return bool(hashlib.sha256(content.encode()).hexdigest() == plan["content_sha256"])


def check_honest(view: CommandView, saga: Saga, before: Reality, after: Reality) -> None:
    """Denials are held against what was there before the status was read, claims against what is there after it.

    `saga` names what is spoken of; what is judged is the view.
    """
    _words_agree(view)
    if view.intent == "ARTICLE_WITHDRAW":
        _withdrawal_holds(view, saga, before, after)
        return
    _claims_hold(view, saga, after)
    _denials_hold(view, saga, before)


def _withdrawal_holds(view: CommandView, saga: Saga, before: Reality, after: Reality) -> None:
    post_id = json.loads(saga.root.params)["plan"]["post_id"]
    pivot = saga.named("UNPUBLISH_WORDPRESS_POST")
    assert not view.live, view
    if re.search(r"\bis withdrawn\b", view.say_to_user):
        assert after.status_of(post_id) != "publish", view
        assert view.answers.executed == "yes", view
    if view.answers.executed == "no" and pivot is not None and pivot.attempt_count > 0:
        assert before.status_of(post_id) == "publish", view
    if "MARK_PUBLICATION_WITHDRAWN" in view.answers.succeeded:
        assert "withdrawn" in [row["status"] for row in after.rows], view


def _words_agree(view: CommandView) -> None:
    answers = view.answers
    assert not (set(answers.succeeded) & set(answers.unknown)), answers
    assert not (set(answers.succeeded) & set(answers.remaining)), answers
    assert view.done <= (view.state in TERMINAL), view
    assert (view.next_action == "stop") == view.done, view
    assert (view.next_poll_after_s == 0) == view.done, view
    assert not (answers.unknown and view.state in TERMINAL), view
    assert bool(answers.unknown) <= (view.state in ("OUTCOME_UNKNOWN", "RECONCILING")), view
    assert (answers.retry_safe == "nothing_to_retry") == view.done, view
    assert answers.resumable == (view.state not in TERMINAL), view
    assert (view.reviews != ()) <= (answers.human is not None), view
    assert view.live <= (answers.executed == "yes" and view.verified_at_ms is not None), view
    if view.done:
        assert answers.remaining == (), view
        assert view.waiting_for is None, view
    else:
        assert view.waiting_for is not None, view


def _claims_hold(view: CommandView, saga: Saga, real: Reality) -> None:
    says = view.say_to_user
    succeeded = set(view.answers.succeeded)
    if view.live or re.search(r"\bis published\b", says):
        assert real.shows(saga), (says, real.live)
        assert view.live, says
    if "CREATE_WORDPRESS_DRAFT" in succeeded:
        draft = next(step for step in view.steps if step.name == "CREATE_WORDPRESS_DRAFT")
        assert real.status_of(draft.external_resource_id) != "none", view
        if draft.compensation_state == "DONE":
            assert real.status_of(draft.external_resource_id) in ("trash", "none"), view
    if "STAGE_PUBLICATION_RECORD" in succeeded:
        assert real.row(saga) != "none", view
    if "RECORD_PUBLICATION" in succeeded:
        assert real.row(saga) in ("published", "withdrawn"), view
    if "SEND_NOTIFICATION" in succeeded and not _ruled(saga, "SEND_NOTIFICATION"):
        assert real.mails(saga) >= 1, view
    if "was undone" in says or view.state == "COMPENSATED":
        assert real.row(saga) in ("cancelled", "none"), view


def _denials_hold(view: CommandView, saga: Saga, real: Reality) -> None:
    says = view.say_to_user
    if re.search(r"\b(is|was) not published\b", says) or view.answers.executed == "no":
        assert not real.shows(saga), (says, view.answers, view.state, [(s.name, s.state) for s in view.steps])
    notice = next((step for step in view.steps if step.name == "SEND_NOTIFICATION"), None)
    if notice is not None and notice.attempts == 0 and not saga.root.generation:  # a repetition says the same again
        assert real.mails(saga) == 0, view


def _ruled(saga: Saga, name: str) -> bool:
    row = saga.named(name)
    return row is not None and row.external_resource_id == "ruled"
