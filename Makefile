# One command each. Needs only make and Python >= 3.11; `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet
INSTALL = $(PIP) install --require-hashes --only-binary=:all:
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
  --no-annotate pyproject.toml build-requirements.in
# Tests that share one started service run in one process (xdist_group), and many wait: one process more than the usual two
# cores. TESTS="-k name" narrows a run.
JOBS ?= 3
TESTS ?=
SEEDS ?= 20000
FUZZ_S ?= 360

.PHONY: help demo test check bench soak services lock wheel clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

demo: $(VENV)/.run ## install what runs, nothing else, and show the product against its sandbox
	$(BIN)/remit demo

test: $(VENV)/.dev ## run the tests (real services: `make services` first, else those tests are skipped)
	$(BIN)/python -m pytest -n $(JOBS) $(TESTS)

check: $(VENV)/.dev ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev ## print measured ratios against the bounds
	$(BIN)/python -m tests.benchmarks

soak: $(VENV)/.dev ## the long proofs: many simulated schedules, then real processes
	$(BIN)/remit simulate --seeds $(SEEDS)
	for world in focus stalled clocks deadly restored twins front lying; do \
	  $(BIN)/python -m execution.simulation $$(( $(SEEDS) / 20 )) 0 1 $$world; done
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_S)
	$(BIN)/python -m tests.matrix
	$(BIN)/python -m tests.soak

services: ## install the system services that the test beds start (root, Debian)
	tests/testbeds/services_install.sh
	tests/testbeds/clients_install.sh

# The locks are universal (markers for other Pythons and systems) and name no index.
lock: $(VENV)/.dev ## resolve the dependencies anew
	$(COMPILE) -o requirements.lock
	$(COMPILE) --all-extras --group dev -c requirements.lock -o requirements-dev.lock

wheel: $(VENV)/.dev ## build dist/remit-*.whl
	$(BIN)/python -m build --wheel --no-isolation

clean: ## remove the virtual environment and what was built
	rm -rf $(VENV) dist build

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "remit needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing python3-venv"; apt-get update -qq; \
	    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; \
	  else echo "Python's venv module is incomplete. On Debian and Ubuntu: sudo apt install python3-venv" >&2; exit 1; fi; }
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

# hatchling is in both locks, so the editable install builds without fetching anything.
$(VENV)/.run: requirements.lock pyproject.toml | $(VENV)/.made
	$(INSTALL) -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(VENV)/.made
	$(INSTALL) -r requirements-dev.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	touch $@ $(VENV)/.run
