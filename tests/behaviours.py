"""The behaviours that Remit must show: id → sentence → source. A test that shows one is marked with its id:

    @pytest.mark.behaviour("publish.once")
    def test_...

`tests/repo/test_behaviours.py` holds the tie in both directions: no id without a test, no mark without an id. Threats
have a table of their own (`tests/threats.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    sentence: str  # what somebody can observe
    source: str  # the law, RFC or vendor page that demands it


BEHAVIOURS: Final[Mapping[str, Behaviour]] = MappingProxyType(
    {
        "law.write-ahead": Behaviour(
            sentence="A worker killed around any commit loses nothing and repeats nothing.",
            source="The design, law 1",
        ),
        "law.doubt": Behaviour(
            sentence="A lost answer is a doubt that is found out, whatever became of the request.",
            source="The design, law 2",
        ),
        "law.look": Behaviour(
            sentence="Between send and answer a kill repeats nothing: what is there is adopted.",
            source="The design, law 3",
        ),
        "law.quiescence": Behaviour(
            sentence="A request that outlives its client is not sent beside itself.",
            source="The design, law 3; the protocol's inequality",
        ),
        "law.identity": Behaviour(
            sentence="The same intent is the same command, however often and from wherever it is proposed.",
            source="The design, law 4",
        ),
        "law.conflict": Behaviour(
            sentence="The same key with another meaning is a conflict that names the fields; nothing runs.",
            source="The design, law 4",
        ),
        "law.repeat": Behaviour(
            sentence="A deliberate repetition needs leave, names the newest and has keys and effects of its own.",
            source="The design, law 4",
        ),
        "law.epoch": Behaviour(
            sentence="A worker that was stopped before its write adds no effect when it goes on.",
            source="The design, law 5",
        ),
        "law.late-answer": Behaviour(
            sentence="A late answer of a worker that lost its lease is evidence that the owner uses.",
            source="The design, law 5",
        ),
        "law.poison": Behaviour(
            sentence="What kills its worker again and again is quarantined, and others flow.",
            source="The design, law 6",
        ),
        "pace.shared": Behaviour(
            sentence="One refusal for load holds back every command to that system; no attempt is spent on it.",
            source="The design, law 6",
        ),
        "pace.bulkhead": Behaviour(
            sentence="A system that hangs delays no command for another, and is not flooded.",
            source="The design, law 6",
        ),
        "law.compensation": Behaviour(
            sentence="What is rejected is undone in reverse, each undoing read back.",
            source="The design, law 7",
        ),
        "law.pivot": Behaviour(
            sentence="A step that fails for good after the pivot never unpublishes.",
            source="The design, law 8",
        ),
        "law.fence": Behaviour(
            sentence="A revocation stops the very next fence.",
            source="The design, law 9",
        ),
        "revoke.stops": Behaviour(
            sentence="What waits under a revoked token, decision, agent or client is undone without anybody's answer.",
            source="The security rules, section 2",
        ),
        "revoke.compromise-holds": Behaviour(
            sentence="Under a revoked key or tenant nothing is sent, not even what would undo, until it is reinstated.",
            source="The security rules, section 2",
        ),
        "http.host-approves-nothing": Behaviour(
            sentence="A host that answers, forges, replays and switches tokens approves nothing.",
            source="The security rules, section 4, threats 12 to 14",
        ),
        "issuer.stolen-key": Behaviour(
            sentence="A used token that its issuer never noted is named by doctor.",
            source="The security rules, section 5, threat 47",
        ),
        "token.watch": Behaviour(
            sentence="A watched token is renewed in its file until its decision is spent or closed.",
            source="The security rules, section 3",
        ),
        "policy.changed": Behaviour(
            sentence="A change of what judged a command holds it until an operator speaks; any other edit does not.",
            source="The design, law 9",
        ),
        "decision.closed": Behaviour(
            sentence="Under a decision that was closed nothing is accepted any more, though its tokens are out.",
            source="The security rules, section 2",
        ),
        "approval.one-open": Behaviour(
            sentence="One gate asks one question at a time, whoever asks at the same moment.",
            source="The design, law 10",
        ),
        "approval.forged": Behaviour(
            sentence="A yes that no operator who may approve has signed publishes nothing, whatever the database says.",
            source="The security rules, section 4",
        ),
        "operator.key": Behaviour(
            sentence="Whoever acts shows an operator's key: a name, a login or a row in the database is nobody.",
            source="The design, law 6",
        ),
        "operator.roles": Behaviour(
            sentence="Who lacks the role for a verb changes nothing with it.",
            source="The security rules, section 4",
        ),
        "keys.overlap": Behaviour(
            sentence="A rotated key's tokens are accepted until they have expired, and its private half goes then.",
            source="The security rules, section 1",
        ),
        "interruption.right-outcome": Behaviour(
            sentence="What comes right before a fence leaves it held, undone, finished or asked about, as it should.",
            source="The design, laws 7 to 11",
        ),
        "journal.tampering": Behaviour(
            sentence="An edit, a rewritten end, a cut and an exchange in the journal's file show against a checkpoint.",
            source="The security rules, section 8",
        ),
        "journal.replayed-backup": Behaviour(
            sentence="A backup that is put back shows, at once and after it has grown again, until a person says so.",
            source="The security rules, section 5, threat 45",
        ),
        "journal.inclusion": Behaviour(
            sentence="Somebody who has only the public key can check that events stood in the journal.",
            source="The security rules, section 8",
        ),
        "law.freeze": Behaviour(
            sentence="A freeze holds everything beside the state; lifting it releases.",
            source="The design, law 9",
        ),
        "operator.hold": Behaviour(
            sentence="A held command sends nothing more until it is resumed; others go on.",
            source="The design, section 9",
        ),
        "operator.plan": Behaviour(
            sentence="Operators see the plan of what they would set in motion; nothing is written.",
            source="The design, section 9",
        ),
        "preview.true": Behaviour(
            sentence="A preview tells what acceptance would freeze, or refuses what acceptance would refuse.",
            source="The design, section 8",
        ),
        "card.whole": Behaviour(
            sentence="A definition answers all ten blocks of its card, or it cannot be constructed.",
            source="The design, section 6",
        ),
        "law.approval": Behaviour(
            sentence="An approval binds the exact bytes of the request that publishes.",
            source="The design, law 10",
        ),
        "law.four-eyes": Behaviour(
            sentence="Nobody approves what they proposed, whatever they call themselves.",
            source="The design, law 10",
        ),
        "law.lost-update": Behaviour(
            sentence="A person's edit is never overwritten: it stops the publication and stays.",
            source="The design, law 11",
        ),
        "law.one-transaction": Behaviour(
            sentence="Owners in two processes never both commit on what they saw.",
            source="The design, law 12",
        ),
        "law.durable": Behaviour(
            sentence="What was acknowledged before a kill is there afterwards.",
            source="The design, law 14",
        ),
        "law.power": Behaviour(
            sentence="What was told or sent before a power cut is on record after it, and the journal is not in doubt.",
            source="The design, laws 1 and 14",
        ),
        "store.damaged": Behaviour(
            sentence="A damaged database is told as such by every command, with what to do.",
            source="The design, laws 14 and 16",
        ),
        "law.incarnation": Behaviour(
            sentence="A copied or restored journal asks people and sends nothing.",
            source="The design, law 14",
        ),
        "law.rulings": Behaviour(
            sentence="A verdict that reality contradicts is refused.",
            source="The design, law 15",
        ),
        "law.watch": Behaviour(
            sentence="An effect that comes after every declared bound is found, and a person is asked.",
            source="The design, law 17",
        ),
        "schedule.spaced": Behaviour(
            sentence="A backlog of scheduled publications is let go one by one, by however many workers.",
            source="The design, section 6; a public incident of bursts after downtime",
        ),
        "archive.once": Behaviour(
            sentence="A version is kept on one branch, however many ask for it at once.",
            source="The design, law 3 and section 7",
        ),
        "archive.kept": Behaviour(
            sentence="A publication keeps its branch, and asks once for it to be merged where that is configured.",
            source="The design, section 7",
        ),
        "archive.untouched": Behaviour(
            sentence="A branch that somebody pushed to is neither taken for ours nor deleted.",
            source="The design, laws 7 and 11",
        ),
        "mail.at-most-once": Behaviour(
            sentence="A message is sent at most once, whatever happens to its answer.",
            source="The design, laws 3 and 8",
        ),
        "version.supersedes": Behaviour(
            sentence="A later version takes the place of an earlier one before any of its fences, and waits after it.",
            source="The design, law 11",
        ),
        "cache.accepted-is-not-removed": Behaviour(
            sentence="A purge that was accepted and removed nothing is seen in what readers are served.",
            source="The facts about external systems, section 3",
        ),
        "cache.purged-again": Behaviour(
            sentence="Whatever happens to a purge, the cache is purged at least once and the article stays published.",
            source="The design, laws 3 and 8",
        ),
        "cache.unknown-is-said": Behaviour(
            sentence="A purge that fails for good leaves the article published, its cache state said to be unknown.",
            source="The design, law 8",
        ),
        "monitoring.one-check": Behaviour(
            sentence="Whatever happens to a registration, an article has one check, for all its versions.",
            source="The design, section 7; the facts about external systems, section 5",
        ),
        "webhook.at-most-once": Behaviour(
            sentence="A webhook is sent at most once; in doubt a person is told the webhook-id to look for.",
            source="The design, laws 3 and 8",
        ),
        "webhook.signed": Behaviour(
            sentence="A webhook carries a signature that other implementations of the specification accept.",
            source="Standard Webhooks 1.0.0",
        ),
        "webhook.private-addresses": Behaviour(
            sentence="No private address gets a byte of a webhook unless the configuration says so.",
            source="The security rules, section 5, threat 21",
        ),
        "article.content": Behaviour(
            sentence="The state of an article is told alike by its list and by every command about it.",
            source="The design, section 6",
        ),
        "article.duties": Behaviour(
            sentence="An ending names what is left to people, and to whom.",
            source="The design, section 6",
        ),
        "inbox.once": Behaviour(
            sentence="A fact from outside is kept once; against an ending it asks a person and changes nothing.",
            source="The design, section 6",
        ),
        "inbox.evidence": Behaviour(
            sentence="A fact about what is on its way is evidence and moves nothing.",
            source="The design, section 6",
        ),
        "withdraw.whole": Behaviour(
            sentence="A withdrawal takes the post down, marks the row, writes the incident and corrects, each once.",
            source="The design, section 7",
        ),
        "withdraw.republish": Behaviour(
            sentence="What was withdrawn is published again by a later version over the same post.",
            source="The design, section 7",
        ),
        "withdraw.no-lost-update": Behaviour(
            sentence="A person's edit stops a withdrawal and is kept when it is taken down on their word.",
            source="The design, laws 7 and 11",
        ),
        "real.wordpress": Behaviour(
            sentence="On a real WordPress two versions stand as approved, and a person's edit stops the third.",
            source="The design, section 7",
        ),
        "approve.whole-subject": Behaviour(
            sentence="Whatever the approved hash covers is on the approver's screen, and so is every change of it.",
            source="The design, section 9",
        ),
        "review.three-ways": Behaviour(
            sentence="Who rules about a change sees what was approved, what stands there and what would be written.",
            source="The design, law 11",
        ),
        "real.plugin": Behaviour(
            sentence="With the shipped plugin a real WordPress refuses a second post and a write over a person's edit.",
            source="The design, section 3; measured",
        ),
        "publish.image": Behaviour(
            sentence="An image that a person stored is published with its article, and an unwound one leaves no file.",
            source="The design, section 7",
        ),
        "mend.whole": Behaviour(
            sentence="What a site left unfinished is finished on that object with the same bytes, once it is quiet.",
            source="The design, law 2; measured: PHP killed right after the row",
        ),
        "demo.counts": Behaviour(
            sentence="Four calls and a kill make one post and one mail.",
            source="The design, section 1",
        ),
        "input.fuzzed": Behaviour(
            sentence="Whatever a stranger sends ends in an answer or a documented refusal, found with coverage's help.",
            source="The design, section 1",
        ),
        "tools.pinned": Behaviour(
            sentence="The list of tools is the published one, for everybody and in both eras.",
            source="The security rules, section 5, threat 49",
        ),
        "agent.flood": Behaviour(
            sentence="A flood of proposals leaves as many questions for people as its token allows.",
            source="The security rules, section 5, threat 2",
        ),
        "token.clock": Behaviour(
            sentence="A clock that went back brings no expired token back.",
            source="The security rules, sections 1 and 5, threat 43",
        ),
        "secrets.nowhere": Behaviour(
            sentence="After a whole publication no token, key or password is anywhere but in its own file.",
            source="The security rules, section 5, threats 4, 9 and 25",
        ),
        "operator.proven": Behaviour(
            sentence="A name is no proof: without the operator's key no verb does anything.",
            source="The security rules, section 4",
        ),
        "unattended.published": Behaviour(
            sentence="A program that knows the gateway's address and holds a registered key gets a token and proposes.",
            source="The security rules, section 1; RFC 9728, RFC 8414, RFC 7523, RFC 9396",
        ),
        "unattended.hostile": Behaviour(
            sentence="A hostile request for a token gets a stable code, and nothing is issued.",
            source="RFC 6749, section 5.2; RFC 7523, section 3",
        ),
        "unattended.once": Behaviour(
            sentence="A client's assertion works once, however many present it and after a restart.",
            source="RFC 7523, section 3",
        ),
        "unattended.decision": Behaviour(
            sentence="A closed decision and a revoked client get no token.",
            source="The security rules, section 2",
        ),
        "token.hostile": Behaviour(
            sentence="A hostile token is refused with its code and without echo.",
            source="The security rules, section 6; RFC 8725",
        ),
        "token.uses": Behaviour(
            sentence="A token for one use is accepted once, by however many processes.",
            source="The security rules, section 2",
        ),
        "wire.clean": Behaviour(
            sentence="Nothing but the protocol reaches stdout.",
            source="MCP, stdio transport",
        ),
        "http.saga": Behaviour(
            sentence="Over HTTP an approved proposal is published once, in both protocol eras.",
            source="The design, sections 8 and 11",
        ),
        "http.apart": Behaviour(
            sentence="Two agents of one HTTP server never see each other's commands.",
            source="The security rules, section 5, threat 20",
        ),
        "http.acknowledged": Behaviour(
            sentence="A proposal over HTTP is acknowledged within two seconds while every backend hangs.",
            source="The design, section 8; incident 27",
        ),
        "http.hostile": Behaviour(
            sentence="A hostile HTTP request is refused with its code; none ends in a 500 or hangs.",
            source="The security rules, section 6",
        ),
        "connect.saga": Behaviour(
            sentence="Through `remit connect` an approved proposal is published once.",
            source="The design, section 1",
        ),
        "connect.unknown": Behaviour(
            sentence="A proposal whose answer was lost on the way is told as not known, and is sent once.",
            source="The design, laws 2 and 16",
        ),
        "connect.token-file": Behaviour(
            sentence="Whatever is wrong with a token file is the answer of the call; the process goes on.",
            source="The security rules, section 3",
        ),
        "hosts.configured": Behaviour(
            sentence="The configuration printed for each host parses, and its command starts and serves.",
            source="The design, sections 1 and 9",
        ),
        "metrics.true": Behaviour(
            sentence="What Prometheus is told agrees with what happened, and names nobody.",
            source="The security rules, section 5, threat 52",
        ),
        "mcp.conformance": Behaviour(
            sentence="What the MCP conformance suite demands of such a server passes; the rest has a written reason.",
            source="MCP 2026-07-28 and 2025-11-25, conformance requirements",
        ),
        "mcp.older-clients": Behaviour(
            sentence="Older MCP clients publish once over stdio and HTTP.",
            source="The design, section 11",
        ),
        "mcp.inspector": Behaviour(
            sentence="The Inspector lists and calls the tools.",
            source="The design, section 11",
        ),
        "trace.linked": Behaviour(
            sentence="The trace of a proposal is kept and shown with it, and later work is linked to it.",
            source="MCP, _meta; W3C Trace Context; OpenTelemetry, links",
        ),
        "http.end": Behaviour(
            sentence="A gateway that ends answers who waits, and what it acknowledged is on disk.",
            source="The design, laws 13 and 14",
        ),
        "doctor.finds": Behaviour(
            sentence="What is broken about an installation is named, with what to do about it.",
            source="The design, section 9",
        ),
        "audit.finds": Behaviour(
            sentence="A publication that vanished after its success is found, asked about, and no longer called live.",
            source="The design, laws 16 and 17",
        ),
        "audit.scheduled": Behaviour(
            sentence="Of several workers one audits at a time, and what is new is asked and told once.",
            source="The design, law 17",
        ),
        "bundle.clean": Behaviour(
            sentence="A support bundle holds no secret and, unless asked for, no content, wherever they were planted.",
            source="Incident 73; the security rules, section 5, threat 25",
        ),
        "content.erased": Behaviour(
            sentence="Erased content stands in no file of the journal any more, and every chain verifies.",
            source="Incident 88; the design, section 6",
        ),
        "watch.follows": Behaviour(
            sentence="Whoever watches a command sees every event in order, and its end by the exit code.",
            source="The design, section 9",
        ),
        "people.first-look": Behaviour(
            sentence="At a first look people are told what was decided, sent and seen; programs are told everything.",
            source="The design, section 9",
        ),
        "review.case": Behaviour(
            sentence="Whoever must rule is shown object, versions, records, attempts, and what each verdict would do.",
            source="The design, law 15 and section 9",
        ),
        "review.many": Behaviour(
            sentence="Many rulings are previewed, limited and paced, and each is put to the facts by itself.",
            source="Incident 90",
        ),
        "readme.front": Behaviour(
            sentence="Behind the front that the README shows an agent elsewhere reaches the gateway over TLS.",
            source="README",
        ),
        "answers.honest": Behaviour(
            sentence="No answer to an agent reads as published when it is not, or as failed when something exists.",
            source="The design, section 8 and law 16",
        ),
        "readme.commands": Behaviour(
            sentence="Every command of the README does what it says.",
            source="README",
        ),
    }
)
