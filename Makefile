# kraftwatch. A machine needs Python 3.11+, a JDK 17+, make, and a package registry: nothing else.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
LOCKED := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
# A test on a real quorum waits for most of its time, so three run at once, even on two cores. The tests of a file share
# a quorum and stay together; files go in the order of their folders, because a long one that began last would end last.
WORKERS ?= 3
PYTEST := $(BIN)/pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-long check bench simulate screenshots goldens schemas parity rows lock wheel docs clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## install everything, pinned with hashes, into .venv

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kraftwatch needs Python 3.11 or newer; this is " + sys.version.split()[0] + ": make setup PYTHON=/path/to/python3.11")'
	@java -version >/dev/null 2>&1 || { echo "kraftwatch needs a JDK 17 or newer: no working java was found on the PATH" >&2; exit 2; }
	@echo "setup: a virtual environment in .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@awk '/^uv==/{keep=1; print; next} /^[a-z]/{keep=0} keep' requirements.lock > .venv/uv.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r .venv/uv.lock
	@echo "setup: the locked dependencies (pyspark alone is 450 MB: minutes on a slow line)"
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --require-hashes -r requirements.lock
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY) ## a real quorum hurt and healed, scene by scene, told by the streaming job
	@$(BIN)/kraftwatch demo

test: $(READY) check ## every test but the long ones: the pure core, real Spark, a real Kafka on loopback
	@$(PYTEST) -m "not long" --durations=15

test-long: $(READY) ## the long tests: what is slow and rare, on a real Kafka and a real Spark
	@$(PYTEST) -m long --durations=15

check: $(READY) ## format, lint, types, import contracts, the house's own rules: under a minute
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/pytest --quiet tests/unit/test_project_layout.py

bench: $(READY) ## what the idle job costs, and how fast the core decodes and replays
	@$(BIN)/python -m tests.bench

simulate: $(READY) ## a simulated quorum, hurt by a SEED for so many STEPS, and the monitor held against the truth
	@SEED=$(SEED) STEPS=$(STEPS) $(BIN)/python -m tests.simulation

screenshots: $(READY) ## draw the pictures of the page again (Debian's chromium and chromium-driver)
	@$(BIN)/python -m tests.browser

goldens: $(READY) ## write the goldens, the pages of rules, keys and metrics, Grafana's dashboard again; read every difference
	@KRAFTWATCH_REWRITE_GOLDENS=1 $(BIN)/pytest --quiet tests/unit/rules tests/scripts
	@$(BIN)/python -m tests.rule_pages
	@$(BIN)/python -m tests.configuration_page
	@$(BIN)/python -m tests.metric_page
	@$(BIN)/python -m tests.status_schema
	@$(BIN)/python -m deploy.grafana

schemas: $(READY) ## read the layout of every record from every Kafka's jars again (45 MB each, once)
	@$(BIN)/python -m deploy.schemas

parity: $(READY) ## decode against kafka-dump-log of nine Kafkas, replay against Kafka's own MetadataImage
	@$(BIN)/python -m tests.kafka.parity

rows: $(READY) ## which facts of the KIPs a passing test shows, which are excused and why, which are open
	@$(BIN)/python -m tests.kips

lock: $(READY) ## write requirements.lock again from pyproject.toml, and what of it runs in production
	@$(LOCKED) --group dev pyproject.toml -o requirements.lock
	@$(LOCKED) --no-annotate --constraint requirements.lock pyproject.toml -o deploy/requirements.txt

wheel: $(READY) ## the wheel, in dist: with deploy/requirements.txt it is all that a machine or an image needs
	@$(BIN)/hatchling build -t wheel

docs: $(READY) ## the documentation as a site of plain files, in site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

clean: ## remove what was made here
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist site
