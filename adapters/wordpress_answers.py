"""What an answer of WordPress to one of our writes proves. Values only.

A receipt never waits for the content to look right: a row that exists is reported with its id, and what differs is
named. Everything that is neither a row as it was asked for nor a documented refusal is doubt.
"""

from __future__ import annotations

from adapters.answers import Reply, Unreadable
from adapters.wordpress_posts import Post, differing, error_code, parse_answer, parse_post, same_slug
from adapters.wordpress_refusals import CREATE, TRASH, UPDATE, refusal
from execution.core.failures import Answer, Landed, Lost, Present, Receipt
from execution.ports import Article


def live(
    post: Post, article: Article, missing: tuple[str, ...] = (), unkept: tuple[str, ...] = (), *, mendable: bool = False
) -> Present:
    """A live post, and what it lacks of the article."""
    lacking = missing if same_slug(post.slug, article.slug) else ("slug", *missing)
    difference = (*differing(post, article), *unkept, *lacking)
    receipt = post.receipt(difference)
    return Present(receipt=receipt, complete=not lacking, mendable=mendable, difference=difference)


def created(reply: Reply, article: Article) -> Answer:
    """A draft that was made."""
    if reply.status == 201:
        post = parse_post(parse_answer(reply.body))
        return Landed(receipt=post.receipt(differing(post, article)))
    if (reply.status, error_code(reply.body, reply.status)) == (409, "remit_key_exists"):
        return Lost(code="already_exists")  # an earlier attempt of ours, or a duplicate on the way: the read-back tells
    return refusal(reply, CREATE)


def put(reply: Reply, post_id: str, article: Article) -> Answer:
    """The article, written over a post and public."""
    if reply.status != 200:
        return refusal(reply, UPDATE)
    post = parse_post(parse_answer(reply.body))
    if str(post.post_id) != post_id:
        raise Unreadable
    return Landed(receipt=live(post, article).receipt) if post.status == "publish" else Lost(code="not_published")


def kept(reply: Reply, article: Article) -> Answer:
    """A draft that was completed."""
    if reply.status != 200:
        return refusal(reply, UPDATE)
    post = parse_post(parse_answer(reply.body))
    return Landed(receipt=post.receipt(differing(post, article)))


def unpublished(reply: Reply, post_id: str) -> Answer:
    """A post that was set to draft."""
    if reply.status != 200:
        return refusal(reply, UPDATE)
    post = parse_post(parse_answer(reply.body))
    if str(post.post_id) != post_id:
        raise Unreadable
    return Landed(receipt=post.receipt()) if post.status == "draft" else Lost(code="not_unpublished")


def trashed(reply: Reply, post_id: str) -> Answer:
    """A post that was thrown away."""
    if reply.status == 200:
        post = parse_post(parse_answer(reply.body))
        return Landed(receipt=post.receipt()) if post.is_trashed else Lost(code="not_trashed")
    match reply.status, error_code(reply.body, reply.status):
        case 410, "rest_already_trashed":
            return Landed(receipt=without_post(post_id, "trash"))
        case 404, "rest_post_invalid_id":
            return Landed(receipt=without_post(post_id, "gone"))
        case _:
            return refusal(reply, TRASH)


def without_post(post_id: str, status: str) -> Receipt:
    """The receipt of what is not there any more."""
    return Receipt(resource_id=post_id, data={"status": status})
