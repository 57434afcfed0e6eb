# `make optimize` plans the reference case; `make test` is a newcomer's check of every room, `make check` the rest that CI
# runs, `make campaigns` what a release needs beside. tests/slow.txt says which test is of which tier; `make durations`
# measures that anew. All make .venv on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL = $(BIN)/python -m pip install --quiet --constraint constraints.txt
# Tests begin hundreds of processes, which would compile every module anew where none of them may write it down.
export PYTHONDONTWRITEBYTECODE :=
# Traces are not part of the project; tests and reports that need one look here and skip without.
export PLANNER_DATA ?= $(wildcard $(CURDIR)/../shared/data)
DATA_REPORTS := reports/mooncake-conversation
ALL_REPORTS := $(patsubst %/scenario.toml,%,$(wildcard reports/*/scenario.toml))
# Measured points, likewise: the report of fidelity is checked where all files are at hand.
FOLDERS := $(subst :, ,$(PLANNER_DATA))
POINTS := $(foreach name,serving_points serving_points_2 h20_prefill,$(firstword $(wildcard $(FOLDERS:%=%/measured/$(name).csv))))
FIDELITY := $(if $(word 3,$(POINTS)),$(BIN)/planner fidelity $(POINTS) --report reports/fidelity)
# Many demands, each served both ways.
SIZE_MAPS := $(patsubst %/map.toml,%,$(wildcard reports/*/map.toml))
REPORTS := $(if $(PLANNER_DATA),$(ALL_REPORTS),$(filter-out $(DATA_REPORTS),$(ALL_REPORTS)))

# Reports that are checked at once.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

# Two that take seconds: they are made again by whatever code there is.
SMALL_REPORTS := reports/not-worth-it reports/rubin-groq
PYTEST = $(BIN)/python -m pytest --numprocesses auto --quiet

.PHONY: optimize test check campaigns durations lint compiled check-inputs check-reports reports pages browser docs \
	reference benchmark faults clean

optimize: $(VENV)/.installed
	$(BIN)/planner optimize

test: $(VENV)/.installed-dev
	$(MAKE) --jobs 2 lint compiled
	$(PYTEST) -m 'not slow and not campaign'

check: check-inputs compiled
	set -e; for case in $(SMALL_REPORTS); do $(BIN)/planner report $$case --out $$case --check; done
	$(PYTEST) -m slow

# Laws on cases that were never drawn before, and every report by the code as it is.
campaigns: check-reports compiled
	$(PYTEST) -m 'slow or campaign' --hypothesis-profile campaign

# FILES measures some files anew and leaves what is listed of the others.
durations: compiled
	$(PYTEST) --durations-list $(FILES)

# The loops of the executor, compiled once before processes need them side by side: plain, with extras, by passes.
compiled: $(VENV)/.installed-dev
	$(BIN)/planner simulate --requests 200 --load 0.8 >/dev/null
	$(BIN)/planner simulate --requests 200 --load 0.8 >/dev/null \
		--set 'execution.faults=[{kind="crash",pool="pd-d",instance=0,at_s=1.0}]'
	$(BIN)/planner size llama-3.1-8b h100-sxm --rate 1 --input 500 --output 50 --ttft-ms 5000 --requests 1000 >/dev/null

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

check-inputs: $(VENV)/.installed
	set -e; for case in $(REPORTS); do $(BIN)/planner report $$case --out $$case --check --inputs; done
	set -e; for map in $(SIZE_MAPS); do $(BIN)/planner report $$map/map.toml --out $$map --check --inputs; done

check-reports: $(VENV)/.installed
	printf '%s\n' $(REPORTS) | xargs -P $(JOBS) -I CASE $(BIN)/planner report CASE --out CASE --check
	set -e; for map in $(SIZE_MAPS); do $(BIN)/planner report $$map/map.toml --out $$map --check; done
	$(if $(FIDELITY),$(FIDELITY) --check)

reports: $(VENV)/.installed
	set -e; for case in $(REPORTS); do $(BIN)/planner report $$case --out $$case; done
	set -e; for map in $(SIZE_MAPS); do $(BIN)/planner report $$map/map.toml --out $$map; done
	$(FIDELITY)
	$(BIN)/python docs/write_reference.py

reference: $(VENV)/.installed
	$(BIN)/python docs/write_reference.py

docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going --quiet -b html docs docs/_build/html
	@echo docs/_build/html/index.html

# A page for every report, and their index, to look at: they are made from the scenarios, and not committed. With
# STUDIES=--studies they have the fronts, variations and runs of the reports too, which takes as long as these.
pages: $(VENV)/.installed
	set -e; for case in $(REPORTS); do \
		$(BIN)/planner explore $$case --out $$case/plan.html --time-limit 600 $(STUDIES); done
	$(BIN)/planner explore --index reports --out reports/index.html

# What the tests of pages need beside a Chromium; without it they are skipped.
browser: $(VENV)/.installed-dev
	$(INSTALL) --editable '.[browser]'

benchmark: $(VENV)/.installed-dev
	set -e; for script in tests/benchmarks/bench_*.py; do $(BIN)/python $$script; done

# Faults planted in lines that compute, drawn by SEED, and the newcomer's tests run on each; tests/campaigns/faults.py.
SEED ?= 0
faults: $(VENV)/.installed-dev
	$(BIN)/python -m tests.campaigns.faults --seed $(SEED)

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(INSTALL) --editable '.[dev]'
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(INSTALL) --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
