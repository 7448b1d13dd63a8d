"""`remit demo`: one story, told by real processes and counted in the systems that they changed.

An agent proposes an article, a person approves it, the worker is killed between WordPress's commit and its answer, the
agent calls again and again; then the same story is lived by a tool that simply tries again. Every line that is told was
read from a process, the journal or the sandbox; the scoreboard is counted in the sandbox alone.

`story` tells it with what `play` holds, `processes` owns what it starts, `sandbox` is the control of the stand-ins,
`agent` the client process, `naive` the other tool, `scoreboard` counts and judges, `telling` prints.
"""

from __future__ import annotations

from pathlib import Path


def run(keep: Path | None = None, *, as_json: bool = False) -> int:
    """Tell the story; the exit status, 0 only when the counts are right. Raises CommandFailed when it breaks off."""
    from server.demo.story import tell

    return tell(keep, as_json=as_json)
