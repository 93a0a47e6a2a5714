# kraftwatch. Requirements: Python 3.11+, a JDK 17+, make and a package registry.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
COMPILED := .venv/.compiled
CLASSES := .venv/.classes
# What needs the installed packages, and neither of the others: made at once, it takes half the time.
PREPARED := downloads $(COMPILED) $(CLASSES)
LOCKED := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header
# Once at the installation: where no bytecode can be written, every process would compile what it imports.
COMPILE := -m compileall -q -j 0 -x /tests/
SBOM ?= dist
# Without the warning that the SBOM does not say which package needs which: the lock does not say it either.
CYCLONEDX := PYTHONWARNINGS=ignore::UserWarning $(BIN)/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application --output-reproducible --spec-version 1.6
# Tests on a real quorum mostly wait, so four run at once even on two cores. The tests of a file share a quorum and run
# in one worker. Files run in the order of their folders, so that a long file does not start last.
WORKERS ?= 4
COMMA := ,
PYTEST := $(BIN)/pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-live compiled-tests downloads test-long whole test-pyspark check types lint bench evaluate simulate outputs hostile chaos screenshots findings goldens generated schemas kafka kafka-tests parity mutate lock helm api-server otelcol wheel image-files image spark-archive audit sbom release docs clean

help: ## print this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) $(COMPILED) $(CLASSES) ## install the locked dependencies (verified by hash) into .venv

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kraftwatch needs Python 3.11 or newer; this is " + sys.version.split()[0] + ": make setup PYTHON=/path/to/python3.11")'
	@java -version >/dev/null 2>&1 || { echo "kraftwatch needs a JDK 17 or newer: no working java on the PATH" >&2; exit 2; }
	@echo "setup: creating a virtual environment in .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@awk '/^uv==/{keep=1; print; next} /^[a-z]/{keep=0} keep' requirements.lock > .venv/uv.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r .venv/uv.lock
	@echo "setup: installing the locked dependencies (pyspark alone is 450 MB)"
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --require-hashes -r requirements.lock
	@VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(COMPILED): $(READY)
	@echo "setup: compiling to bytecode, which saves each command up to a second of CPU time"
	@$(BIN)/python $(COMPILE) .venv/lib rules connectors streaming deploy || true
	@touch $@

$(CLASSES): $(READY)
	@echo "setup: archiving the classes that Spark's Java loads in a job"
	@$(BIN)/python -m streaming.pipeline.class_archive || true
	@touch $@

demo: $(READY) ## inject faults into a real Kafka quorum and show the alerts of the streaming job
	@$(MAKE) --no-print-directory --jobs=3 $(PREPARED)
	@$(BIN)/kraftwatch demo

test: $(READY) ## run checks and the tests: unit, simulation, commands, real Spark, real Kafka on loopback (under 20 min)
	@$(MAKE) --no-print-directory --jobs=4 $(PREPARED) check compiled-tests
	@$(PYTEST) -m "not long and not live" --durations=15

test-live: $(READY) ## run the files on real quorums, in real jobs and on Spark that take over a minute (20 min)
	@$(MAKE) --no-print-directory downloads
	@$(PYTEST) -m "live and not long" --durations=15

# Collecting the tests compiles them and the packages that they import: once here, instead of in each worker.
compiled-tests: $(READY)
	-@$(PYTEST) --numprocesses=0 --collect-only --quiet -m "not long and not live" >/dev/null

# Into an empty cache: while the rest is prepared, so that nothing waits for it.
downloads: $(READY)
	-@$(BIN)/python -c 'from pathlib import Path; from deploy.lab.lab import Lab; Lab(Path()).prepare()'

# Without PART= all parts: `python -m tests.long_parts` prints them, and which files each has.
test-long: $(READY) ## run the long tests, slow and rare scenarios on real Kafka and Spark, or one PART= of them (5 h with WORKERS=1)
	@$(BIN)/python -m tests.long_parts $(PART) >/dev/null
	@$(MAKE) --no-print-directory downloads
	@$(PYTEST) -m long --durations=15 $$($(BIN)/python -m tests.long_parts $(PART) 2>/dev/null)

whole: $(READY) ## run every command that tests, or ONLY=NAME,... of them, and write the table of docs/reliability.md (9 h)
	@ONLY=$(ONLY) WORKERS=$(WORKERS) $(BIN)/python -m tests.whole

test-pyspark: $(READY) ## run the Spark tests with another version of pyspark, VERSION= (4.2.1), in .venv-pyspark
	@test -x .venv-pyspark/bin/python || $(PYTHON) -m venv .venv-pyspark
	@grep -v '^#' requirements.lock | awk '/^pyspark==/{skip=1; next} /^[a-z]/{skip=0} !skip' >.venv-pyspark/others.lock
	@VIRTUAL_ENV=.venv-pyspark $(BIN)/uv pip install --quiet --require-hashes --no-deps -r .venv-pyspark/others.lock
	@VIRTUAL_ENV=.venv-pyspark $(BIN)/uv pip install --quiet --no-deps "pyspark==$(or $(VERSION),4.2.1)"
	@VIRTUAL_ENV=.venv-pyspark $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@.venv-pyspark/bin/pytest tests/spark -m "not long" --durations=15

check: $(READY) ## check format, lint, types, imports, and that documents and code agree (under a minute)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync types lint

# Types and all other checks take about as long as each other: each has a core of its own.
types: $(READY)
	@$(BIN)/mypy --no-error-summary

lint: $(READY)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest --quiet $(wildcard tests/unit/test_*.py)

bench: $(READY) ## measure every section, or ONLY=NAME,... (day: HOURS=, SPEED=, SOURCE=; month: DAYS=, HOURS=, SEED=; object-store: CLUSTERS=, COPIES=, EXECUTORS=, LATENCY=, TRIGGER=, MANAGER=), write the tables of docs/performance.md (an hour)
	@ONLY=$(ONLY) HOURS=$(HOURS) SPEED=$(SPEED) SEED=$(SEED) SOURCE=$(SOURCE) DAYS=$(DAYS) LATENCY=$(LATENCY) TRIGGER=$(TRIGGER) MANAGER=$(MANAGER) CLUSTERS=$(CLUSTERS) COPIES=$(COPIES) EXECUTORS=$(EXECUTORS) $(BIN)/python -m tests.bench

evaluate: $(READY) ## inject faults into a real quorum (ONLY=WORD,...), count notifications, write docs/comparison.md (15 min)
	@KRAFTWATCH_WRITE_COMPARISON=1 $(BIN)/pytest tests/job/test_evaluated_faults.py -k "$(subst $(COMMA), or ,$(ONLY))"

simulate: $(READY) ## simulate a quorum with faults (SEED=, STEPS=) and compare the alerts with the simulated state
	@SEED=$(SEED) STEPS=$(STEPS) $(BIN)/python -m tests.simulation

outputs: $(READY) ## compare all outputs of 6,500 quorums with those recorded before (RECORD=1: record them), or of the sources with ONLY=WORD,... in their names (2 min)
	@RECORD=$(RECORD) ONLY="$(ONLY)" $(BIN)/python -m tests.agreement

hostile: $(READY) ## mutate what a node, a disk, a sink or a file may hold, COUNT= cases (10,000) by SEED=; floods (10 min)
	@SEED=$(SEED) COUNT=$(COUNT) $(BIN)/python -m tests.hostile

chaos: $(READY) ## overlap faults (all, or FAULTS=WORD,...) on a real quorum for HOURS= (1) by SEED=, judge each alert, or try the answers of FORECAST= faults, or of WITNESS= faults with the rows of the controllers' hosts, or total outages of OUTAGES= controllers (root, nftables)
	@SEED=$(SEED) HOURS=$(HOURS) FAULTS="$(FAULTS)" FORECAST=$(FORECAST) WITNESS=$(WITNESS) OUTAGES=$(OUTAGES) $(BIN)/python -m tests.chaos

findings: ## run what surprised us in other software (findings/README.md)
	@for each in findings/*.sh; do echo "$$each" && "$$each" || exit 1; done

screenshots: $(READY) ## update the pictures of the web page and of Slack (needs Debian's chromium and chromium-driver)
	@$(BIN)/python -m tests.browser

goldens: $(READY) ## update goldens and generated documentation; review every diff
	@KRAFTWATCH_REWRITE_GOLDENS=1 $(BIN)/pytest --quiet tests/unit/rules tests/scripts tests/unit/streaming/metrics tests/unit/streaming/status tests/unit/streaming/query tests/unit/streaming/replay/test_log_scenarios.py tests/unit/streaming/config/test_refused.py tests/cli/test_transcripts.py
	@$(MAKE) --no-print-directory generated

generated: $(READY) ## write the pages of the rules, the schemas and alertmanager.yml; no reviewer reads them (3 s)
	@$(BIN)/python -m tests.generated_files

schemas: $(READY) ## update the record schemas from the jars of every Kafka version (45 MB each, downloaded once)
	@$(BIN)/python -m deploy.schemas.schema_file

kafka: $(READY) ## add Kafka VERSION= and test with it (15 min), or print what a fork's kafka-metadata jar has that Kafka lacks
	@$(BIN)/python -m deploy.schemas.new_kafka $(VERSION)
	@case "$(VERSION)" in *.jar) ;; *) $(MAKE) --no-print-directory kafka-tests VERSION=$(VERSION);; esac

# Without the pinned checksums and schemas of a version these tests would fail: `kafka` adds them first.
kafka-tests:
	@$(BIN)/python -m tests.kafka.parity $(VERSION)
	@$(BIN)/pytest tests/kafka/test_versions.py tests/kafka/test_rescue_by_plan.py -k "$(VERSION)"
	@$(BIN)/pytest -m "not long" tests/kafka/test_lab.py tests/kafka/test_schemas.py tests/kafka/test_image.py \
	  tests/kafka/test_second_quorum.py tests/kafka/test_rule_scenarios_live.py tests/kafka/test_disaster_scenarios.py

parity: $(READY) ## compare decoding with kafka-dump-log of ten Kafka versions, and replay with Kafka's MetadataImage
	@$(BIN)/python -m tests.kafka.parity

MODULE ?= rules/lifecycle.py
MUTATION_TESTS ?= tests/unit/$(firstword $(subst /, ,$(MODULE)))
mutate: $(READY) ## change MODULE=rules/lifecycle.py (or a folder) with mutmut and list the changes that no test notices
	@printf '%s\n' '[mutmut]' source_paths= ' rules' ' connectors' ' streaming' ' deploy' \
	  only_mutate= ' $(MODULE)$(if $(filter %.py,$(MODULE)),,/*)' also_copy= ' docs' ' README.md' ' CHANGELOG.md' \
	  pytest_add_cli_args_test_selection= $(MUTATION_TESTS:%=' %') \
	  pytest_add_cli_args= ' -m' ' not lab and not spark and not long and not debian' > setup.cfg
	@rm -rf mutants; $(BIN)/mutmut run; status=$$?; $(BIN)/mutmut results; rm setup.cfg; exit $$status

lock: $(READY) ## update requirements.lock and deploy/requirements*.txt from pyproject.toml
	@$(LOCKED) --all-extras --group dev pyproject.toml -o requirements.lock
	@$(LOCKED) --no-annotate --constraint requirements.lock --all-extras pyproject.toml -o deploy/requirements.txt
	@$(LOCKED) --no-annotate --constraint requirements.lock pyproject.toml -o deploy/requirements-base.txt

helm: $(READY) ## build the pinned helm in .venv, for the tests of the chart (needs Go; verified by its checksum database)
	@GOBIN=$(CURDIR)/$(BIN) go install helm.sh/helm/v3/cmd/helm@v3.18.4

# go.sum has the checksums of the first two; the last is verified by Go's checksum database.
PROMETHEUS_OPERATOR := github.com/prometheus-operator/prometheus-operator@v0.85.0
api-server: $(READY) ## build the pinned Kubernetes API server and etcd in .venv, for the tests of admission (needs Go; 6 min of CPU)
	@cd tests/api_server && go build -trimpath -ldflags "-s -w" -o $(CURDIR)/$(BIN)/ k8s.io/kubernetes/cmd/kube-apiserver
	@cd tests/api_server && go build -trimpath -ldflags "-s -w" -o $(CURDIR)/$(BIN)/etcd go.etcd.io/etcd/server/v3
	@mkdir -p .venv/crds
	@operator=$$(go mod download -json $(PROMETHEUS_OPERATOR) | sed -n 's/^.*"Dir": "\(.*\)".*$$/\1/p') && for kind in podmonitors prometheusrules; do \
	  install -m 644 "$$operator/example/prometheus-operator-crd/monitoring.coreos.com_$$kind.yaml" .venv/crds; \
	done

otelcol: $(READY) ## build the pinned OpenTelemetry collector in .venv, for the tests of docs/metrics.md (needs Go; verified as helm)
	@mkdir -p build
	@go run go.opentelemetry.io/collector/cmd/builder@v0.165.0 --config tests/unit/deploy/recipes/otelcol.yaml
	@mv build/otelcol/otelcol $(BIN)/otelcol

# What builds a wheel, without the other packages of .venv (1.7 GB): a few packages of the same lock.
BUILD := .venv-build/bin
BUILDS := hatchling|packaging|pathspec|pluggy|trove-classifiers
$(BUILD)/hatchling: requirements.lock
	@test -x $(BUILD)/python || $(PYTHON) -m venv .venv-build
	@awk '/^($(BUILDS))==/{keep=1; print; next} /^[a-z]/{keep=0} keep' requirements.lock >.venv-build/requirements.lock
	@$(BUILD)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r .venv-build/requirements.lock
	@touch $@

wheel: $(BUILD)/hatchling ## build the wheel in dist, without .venv; an installation needs it and deploy/requirements.txt
	@rm -f dist/kraftwatch-*.whl
	@$(BUILD)/hatchling build -t wheel

BASE ?= docker.io/library/debian:bookworm-slim
image-files: wheel $(READY) ## what the Dockerfile copies, in dist: the wheel and the jars of S3A
	@$(BIN)/python -m deploy.lab.spark_jars s3a dist/s3a >/dev/null

image: image-files ## build the image as an OCI layout in dist/image by buildah: without Docker (BASE=, IMAGE_OPTIONS= of buildah)
	@buildah build --isolation chroot --timestamp 0 --build-arg BASE=$(BASE) $(IMAGE_OPTIONS) \
	  --file deploy/Dockerfile --tag kraftwatch:0.1.0 .
	@rm -rf dist/image
	@buildah push kraftwatch:0.1.0 oci:dist/image:0.1.0

ARCHIVE ?= dist/kraftwatch-spark.tar.gz
spark-archive: wheel $(READY) ## build what YARN's or Kubernetes' nodes need: Python packages and kraftwatch
	@rm -rf build/spark && mkdir -p build/spark $(dir $(ARCHIVE))
	@$(BIN)/uv venv --quiet --relocatable --python $(BIN)/python build/spark/python
	@$(BIN)/uv pip install --quiet --python build/spark/python --require-hashes -r deploy/requirements.txt
	@cp dist/kraftwatch-*.whl build/spark
	@$(BIN)/uv pip install --quiet --python build/spark/python --no-deps build/spark/*.whl
	@build/spark/python/bin/python $(COMPILE) --invalidation-mode unchecked-hash build/spark/python/lib
	@tar --exclude='*/pyspark/jars' -C build/spark/python -czf $(ARCHIVE) .

audit: $(READY) ## list the known vulnerabilities of the locked packages, by pip-audit; it needs pypi.org
	@$(BIN)/python -m tests.audit

sbom: $(READY) ## write the SBOMs of the runtime and the development packages (CycloneDX) to dist
	@mkdir -p $(SBOM)
	@$(CYCLONEDX) deploy/requirements.txt --output-file $(SBOM)/kraftwatch.cdx.json
	@$(CYCLONEDX) requirements.lock --output-file $(SBOM)/kraftwatch-dev.cdx.json

CHART := $(shell awk '/^version:/{print $$2}' deploy/helm/kraftwatch/Chart.yaml)
FIXED := --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner
release: image-files sbom ## what a release has, in dist: wheel, requirements, SBOMs, jars of the image, chart, and SHA256SUMS of all
	@cp deploy/requirements.txt deploy/requirements-base.txt deploy/Dockerfile dist
	@tar $(FIXED) -C deploy/helm -cf - kraftwatch | gzip -n >dist/kraftwatch-chart-$(CHART).tgz
	@cd dist && sha256sum kraftwatch-*.whl requirements*.txt *.cdx.json Dockerfile kraftwatch-chart-$(CHART).tgz s3a/*.jar >SHA256SUMS
	@cat dist/SHA256SUMS

docs: $(READY) ## build the documentation as a static site in site
	@$(BIN)/python -m tests.docs_site site

clean: ## delete .venv, caches and build output
	rm -rf .venv .venv-build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist site mutants
