"""The threats that Remit is built against, in the order of the security rules, and what was seen at other people's
desks about approvals, identity and secrets. Each is shown by a test that is marked with its id, like any behaviour, or
stands below with the reason why no test of ours can show it. `tests/repo/test_behaviours.py` holds it to that.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

THREATS_COUNT: Final = 52
INCIDENTS: Final = frozenset({64, 65, 66, 67, 68, 71, 72, 73, 74, 75, 76})

THREATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "threat.1": "Whatever an article tells its readers to do, it comes as far as the question to a person.",
        "threat.2": "An agent that proposes without end leaves few questions.",
        "threat.3": "No text of an article stands on the approver's screen where our own lines stand.",
        "threat.4": "A token that got into a text is refused, written down nowhere, and worth nothing afterwards.",
        "threat.5": "Of a thief and the owner one uses up a token, and the other is told that it is spent.",
        "threat.6": "A token, a command and a lock of one tenant mean nothing at another's.",
        "threat.7": "A token that was made for another service is refused.",
        "threat.8": "What the worker is about to touch is held against what the token was for, before it is sent.",
        "threat.9": "No system outside ever sees an agent's token.",
        "threat.10": "What was changed after its approval is not what was approved, and is not sent.",
        "threat.11": "A yes is for one command and is used once.",
        "threat.12": "Nothing that an agent's host answers is a person's yes.",
        "threat.14": "What a client hands back to continue with decides nothing.",
        "threat.15": "What was forbidden between check and effect is stopped by a check that nothing comes after.",
        "threat.16": "Of two workers on one command one makes the effect.",
        "threat.17": "A token that is shown again is counted again, by however many processes.",
        "threat.18": "Whoever takes a key first blocks no other tenant, and others learn nothing but that it is taken.",
        "threat.19": "Under a key that is taken, another payload is a conflict, and nobody else's answer.",
        "threat.20": "Whoever guesses the id of another's command is told what is told of one that does not exist.",
        "threat.21": "A name that leads into our own network gets no byte.",
        "threat.22": "Script in what we render is taken out and named; what is not rendered a person reads as text.",
        "threat.23": "A line end in an address or a subject starts no header of its own.",
        "threat.24": "A line end in what is logged starts no line of the log.",
        "threat.25": "No secret stands in a log, a journal, an error, a trace or an answer.",
        "threat.26": "A journal that was edited, cut or rewritten is told from the one that was signed.",
        "threat.27": "Two histories of one journal contradict each other for whoever holds a checkpoint of each.",
        "threat.28": "An answer without end is cut off.",
        "threat.29": "A system that answers a byte at a time takes no more time than it is given, and nobody else's.",
        "threat.30": "JSON that two parsers would read differently is refused.",
        "threat.31": "A success that a system only claims is no success.",
        "threat.32": "No word of what a system answers is told to an agent.",
        "threat.33": "A page in a browser that calls our port under its own name is refused.",
        "threat.37": "An agent on the operator's machine is nobody without an operator's key.",
        "threat.38": "No value becomes part of a statement.",
        "threat.39": "The name of stored content is a name and no path.",
        "threat.40": "Nothing that is compressed is unpacked.",
        "threat.41": "A scope that was made to be slow costs what its length costs.",
        "threat.42": "Names are plain letters, and characters that hide are refused or shown.",
        "threat.43": "A clock that goes back brings nothing back that was over.",
        "threat.44": "A file that others can read or change is refused or named.",
        "threat.45": "A backup that is put back brings no spent token and no old yes back.",
        "threat.46": "A key set that was swapped is refused when it is bad, and named afterwards when it is good.",
        "threat.47": "A token that our key signed and our issuer did not is named.",
        "threat.48": "Nothing is installed that was not pinned by its hash.",
        "threat.49": "What tools say of themselves changes on purpose only.",
        "threat.50": "Nobody says yes to what is their own, under whatever name.",
        "threat.51": "Tokens, repetitions and refusals of one agent fill neither the journal nor anybody's day.",
        "threat.52": "No name that an agent chose is the name of a figure.",
        "incident.64": "No step of any saga gets past what forbids it.",
        "incident.65": "Whatever is changed of what was approved makes it something else.",
        "incident.66": "A branch that moved on after its approval is left alone.",
        "incident.67": "Whoever asks through somebody else's name does not approve it under their own.",
        "incident.68": "A yes that was used says so and is not used again.",
        "incident.71": "Many proposals are one question each, and no more of them than a person can read.",
        "incident.72": "A freeze holds gateway and worker, whatever a token says.",
        "incident.73": "Planted secrets are found in nothing that is shown, logged or handed on.",
        "incident.74": "Clocks that differ a little matter to nobody, and more is told with both times.",
        "incident.75": "A continuation that was altered, borrowed or sent twice changes nothing.",
        "incident.76": "The same delivery counts once, and what we deliver carries an id that stays.",
    }
)

NOT_HERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "threat.13": "No client is ever sent to an address: there is no page of ours to log in to or to answer on.",
        "threat.34": "There is no console in a browser: operators sign with a key at a command line, no session.",
        "threat.35": "There is no page of ours that another could frame: what HTTP serves is JSON and plain text.",
        "threat.36": "There are no sessions: each act of an operator carries its own signature.",
    }
)
"""What no test can show, and why."""
