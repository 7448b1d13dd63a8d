"""Can this answer be read as something that is not so? Each field of an answer, held against the outside.

`before` was counted before the agent asked and `after` once it had its answer: a denial must have been true before, a
claim must still be true afterwards. A person who takes the article away later makes no liar of an answer that says when
it was last seen.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from execution.core.command import Saga
from server.results import Answers, CommandLine, CommandStatus, Preview, Problem, Result, text
from tests.evals.phrases import Reading, readings
from tests.integration.honesty import Reality

BYTES_PER_TOKEN: Final = 4
"""The usual rule of thumb for English and JSON, and what `server.results` plans with. Names made of random letters cost
more: a tokenizer splits an id into about one token for two letters."""
CONCISE_TOKENS_MAX: Final = 400
DETAILED_TOKENS_MAX: Final = 4_000
TERMINAL: Final = frozenset({"SUCCESS", "FAILED", "COMPENSATED"})
UNTOUCHED: Final = frozenset({"AUTHORIZED", "FAILED", "NOT_RUN", "CANCELLED"})
"""Steps of which nothing is said to exist."""
PEOPLE: Final = frozenset({"AWAITING_APPROVAL", "AWAITING_AUTHORIZATION", "HELD", "NEEDS_REVIEW"})
EFFECTS: Final = ("CREATE_WORDPRESS_DRAFT", "STAGE_PUBLICATION_RECORD", "SEND_NOTIFICATION")
REMAINDER: Final = re.compile(r"\b(?:still (?:there|exists?)|remains?|left behind|was sent)\b")
SECRET: Final = re.compile(r"eyJ|Bearer (?!TOKEN)|password|Traceback|sqlite|httpx", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """What is really there for one command. public: readers saw this very version at some time up to now. taken_ms:
    when a person changed or removed what was public."""

    saga: Saga
    before: Reality
    after: Reality
    public: bool
    taken_ms: int | None = None

    def seen(self, verified_at: str | None) -> bool:
        """Whether it stands there now, or stood there at that time."""
        if self.after.shows(self.saga):
            return True
        if verified_at is None or self.taken_ms is None:
            return False
        return self.public and datetime.fromisoformat(verified_at).timestamp() * 1000 <= self.taken_ms

    def exists(self) -> frozenset[str]:
        """The steps whose effect is there and neither in the trash nor cancelled."""
        draft = self.saga.named("CREATE_WORDPRESS_DRAFT")
        found = {
            "CREATE_WORDPRESS_DRAFT": self.before.status_of(draft.external_resource_id if draft else None)
            not in ("none", "trash"),
            "STAGE_PUBLICATION_RECORD": self.before.row(self.saga) in ("staged", "published"),
            "SEND_NOTIFICATION": self.before.mails(self.saga) > 0,
        }
        return frozenset(name for name in EFFECTS if found[name])


def tokens(result: Result) -> int:
    """How much of a context window it takes, by rule of thumb."""
    return -(-len(text(result).encode()) // BYTES_PER_TOKEN)


def judge(answer: CommandStatus, outside: Outside, *, detailed: bool) -> list[str]:
    """Every way in which the answer can be misread."""
    return [
        *_publication(answer, outside),
        *_existence(answer, outside),
        *_instruction(answer),
        *_people(answer),
        *_size(answer, DETAILED_TOKENS_MAX if detailed else CONCISE_TOKENS_MAX),
        *_leaks(answer),
    ]


def judge_line(line: CommandLine, outside: Outside) -> list[str]:
    """One line of a list."""
    found = []
    if line.live and not outside.seen(line.verified_at):
        found.append("the list says live, and it is not to be seen")
    if line.done != (line.state in TERMINAL) and line.done:
        found.append("the list says done before an end")
    if line.state in ("FAILED", "COMPENSATED") and outside.before.shows(outside.saga):
        found.append("the list says failed of what is public")
    return found


def judge_refusal(problem: Problem) -> list[str]:
    """A refusal is about the call. It neither claims nor denies a publication, and says what to do next."""
    found = [f"the refusal {reading} it: {problem.fix}" for reading in readings(problem.fix)]
    if not re.fullmatch(r"[a-z][a-z0-9_]*", problem.code):
        found.append(f"no stable code: {problem.code}")
    if not problem.fix.rstrip().endswith((".", "?")) or len(problem.fix) < 12:
        found.append(f"no advice: {problem.fix}")
    if problem.retry_after_s is not None and not problem.retryable:
        found.append("when to try again what cannot be tried again")
    return [*found, *_size(problem, CONCISE_TOKENS_MAX), *_leaks(problem)]


def judge_preview(preview: Preview) -> list[str]:
    """Nothing happened, and it says so."""
    found = [f"a preview {reading}" for reading in readings(preview.say_to_user)]
    if preview.accepted or "othing was proposed" not in preview.say_to_user:
        found.append("a preview that reads as a proposal")
    return [*found, *_size(preview, CONCISE_TOKENS_MAX), *_leaks(preview)]


def _publication(answer: CommandStatus, outside: Outside) -> list[str]:
    said, found = readings(answer.say_to_user), []
    if Reading.CLAIMS in said:
        dated = answer.verified_at is not None and answer.verified_at in answer.say_to_user
        stands = outside.after.shows(outside.saga)
        past = any(words in answer.say_to_user for words in ("stands there now is not", "published since."))
        if not (stands or (dated and outside.seen(answer.verified_at)) or (past and outside.public)):
            found.append(f"claims a publication: {answer.say_to_user}")
    if answer.live and not (answer.verified_at and outside.seen(answer.verified_at)):
        found.append("live, and it was not to be seen at that time")
    if answer.answers.executed == "yes" and not outside.public:
        found.append("executed: yes, and it was never public")
    if answer.url is not None and not answer.live:
        found.append("an address of what is not known to be live")
    if outside.before.shows(outside.saga):
        if Reading.DENIES in said:
            found.append(f"denies a publication: {answer.say_to_user}")
        if answer.answers.executed == "no":
            found.append("executed: no, and it is public")
        if (
            not answer.live
            and answer.next_action in ("stop", "fix_input")
            and "stands there now" not in (answer.say_to_user)
        ):
            found.append(f"{answer.next_action}, and it is public")
    return found


def _existence(answer: CommandStatus, outside: Outside) -> list[str]:
    """What exists is named as done, under way, unknown or left behind."""
    exists, found = outside.exists(), []
    if answer.done and answer.state != "SUCCESS" and exists:
        if not REMAINDER.search(answer.say_to_user):
            found.append(f"{sorted(exists)} exist, and it only says: {answer.say_to_user}")
        if answer.answers.compensation in ("none", "done"):
            found.append(f"compensation: {answer.answers.compensation}, and {sorted(exists)} exist")
    if "was undone" in answer.say_to_user and exists:
        found.append(f"undone, and {sorted(exists)} exist")
    spoken = _spoken_of(answer)
    if spoken is not None:
        found += [f"{name} exists and is not spoken of" for name in sorted(exists - spoken)]
    return found


def _spoken_of(answer: CommandStatus) -> frozenset[str] | None:
    """The steps that are told of; None when names were left out for brevity."""
    listed = [*answer.answers.succeeded, *answer.answers.unknown]
    if any(re.fullmatch(r"and \d+ more", name) for name in listed) or answer.cursor is not None:
        return None
    return frozenset(listed) | {step.name for step in answer.steps if step.state not in UNTOUCHED}


def _instruction(answer: CommandStatus) -> list[str]:
    done, action, answers, found = answer.done, answer.next_action, answer.answers, []
    unknown = answers.executed == "unknown" or bool(answers.unknown)
    rules = {
        "done before an end": done and answer.state not in TERMINAL,
        "done, and something remains": done and bool(answers.remaining),
        f"{action} although it is not done": action in ("stop", "fix_input") and not done,
        f"{action} although it is done": action in ("wait", "tell_user") and done,
        "nobody says when to ask again": (answer.next_poll_after_s > 0) == done,
        "unknown, and done": unknown and done,
        f"unknown, and retry_safe: {answers.retry_safe}": unknown
        and answers.retry_safe not in ("not_before_reconciled", "person_decides"),
        "the publication is unknown, and the sentence does not say so": answers.executed == "unknown"
        and "not known" not in answer.say_to_user,
        "a repeated proposal without its time": bool(answer.deduplicated) and answer.original_at is None,
        "live or done without an answer that says so": answer.live and answers.executed != "yes",
        "backward and forward at once": done and answers.direction != "none",
    }
    found += [rule for rule, broken in rules.items() if broken]
    return found


def _people(answer: CommandStatus) -> list[str]:
    needs = answer.state in PEOPLE
    found = []
    if not answer.done and answer.waiting_for is None:
        found.append("not done, and nobody knows what it waits for")
    if needs and answer.next_action != "tell_user":
        found.append(f"a person must act, and the agent is told to {answer.next_action}")
    if needs and not _person(answer.answers, answer):
        found.append("a person must act, and none is named")
    return found


def _person(answers: Answers, answer: CommandStatus) -> bool:
    return answers.human is not None or (answer.waiting_for is not None and answer.waiting_for.who != "nobody")


def _size(result: Result, tokens_max: int) -> list[str]:
    return [f"{tokens(result)} tokens, {tokens_max} at most"] if tokens(result) > tokens_max else []


def _leaks(result: Result) -> list[str]:
    return ["something that is not for an agent"] if SECRET.search(text(result)) else []
