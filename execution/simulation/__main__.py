"""`python -m execution.simulation SEEDS [FIRST_SEED [JOBS [KIND]]]`."""

from __future__ import annotations

import sys

from execution.simulation.report import main
from execution.simulation.scenario import Kind

if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:4]]
    seeds, first, jobs = (*given, *(1_000, 0, 1)[len(given) :])
    kind = Kind(sys.argv[4]) if len(sys.argv) > 4 else Kind.MIXED
    sys.exit(main(seeds, first, jobs=jobs, kind=kind))
