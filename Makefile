# Everything starts here. `make run` and `make test` set up what they need by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
RUN_READY := $(VENV)/.ready-to-run
DEV_READY := $(VENV)/.ready-to-develop
BENCH_READY := $(VENV)/.ready-to-measure
DOCS_READY := $(VENV)/.ready-to-document
PIPELINE_READY := $(VENV)/.ready-to-analyse

.PHONY: faults-communication faults-pipeline help run cluster test pipeline lint check spec bench bench-pipeline bench-once bench-cluster bench-communication bench-sdk bench-turns bench-webhooks soak soak-dashboard attack attack-plugins web web-check web-reference faults faults-cluster faults-documents campaign docs format proto requirements clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

$(RUN_READY): requirements/build.txt requirements/run.txt pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh "$(PYTHON)" $(VENV) requirements/run.txt
	@touch $@

$(DEV_READY): $(RUN_READY) requirements/dev.txt requirements/people.txt requirements/tracing.txt
	@sh scripts/setup.sh "$(PYTHON)" $(VENV) requirements/run.txt requirements/dev.txt requirements/people.txt requirements/tracing.txt
	@touch $@

$(PIPELINE_READY): $(RUN_READY) requirements/pipeline.txt
	@sh scripts/setup.sh "$(PYTHON)" $(VENV) requirements/run.txt requirements/pipeline.txt
	@touch $@

$(BENCH_READY): $(DEV_READY) requirements/bench.txt
	@sh scripts/setup.sh "$(PYTHON)" $(VENV) requirements/run.txt requirements/bench.txt
	@touch $@

$(DOCS_READY): $(RUN_READY) requirements/docs.txt
	@sh scripts/setup.sh "$(PYTHON)" $(VENV) requirements/run.txt requirements/docs.txt
	@touch $@

run: $(RUN_READY) ## start a hub in developer mode on port 8000
	@$(BIN)/hubbub serve --dev

cluster: $(DEV_READY) ## start three nodes, NATS and PostgreSQL on this machine
	@PYTHONPATH=. $(BIN)/python scripts/cluster.py $(ARGS)

pipeline: $(PIPELINE_READY) ## bring the analytics up to date with the journal
	@sh scripts/java.sh
	@$(BIN)/hubbub pipeline run $(ARGS)

test: $(DEV_READY) $(PIPELINE_READY) ## run the tests
	@sh scripts/java.sh || echo "setup: going on without the tests that need Java" >&2
	@sh scripts/jeromq.sh
	@sh scripts/node-packages.sh
	@sh scripts/dovecot.sh || echo "setup: going on without the tests that need a mailbox" >&2
	@sh scripts/series.sh $(VENV)
	@case "$(ARGS)" in *--long*) sh scripts/synapse.sh "$(PYTHON)" || true ;; esac
	@sh scripts/node.sh $(VENV) node --version >/dev/null || echo "setup: going on without the tests that need Node" >&2
	@sh scripts/browser.sh $(VENV)
	@$(BIN)/python -m compileall -q src # tests start many processes, also where Python may not keep what it compiles
	@$(BIN)/pytest --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder --max-worker-restart 0 --reruns 1 $(ARGS)

lint: $(DEV_READY) $(PIPELINE_READY) ## check style, types and architecture
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

check: lint web-check test ## what has to pass before a change lands

web: $(DEV_READY) ## build the SDK and the dashboard into src/hubbub/web, with Node from requirements/web.txt
	@sh scripts/node.sh $(VENV) node build.mjs $(ARGS)

web-reference: $(DEV_READY) ## write docs/javascript-reference.md from the declarations of the SDK
	@sh scripts/node.sh $(VENV) sh -c 'node sdk/package.mjs && node sdk/reference.mjs'

web-check: $(DEV_READY) ## check web/: style, types, tests, sizes, and that src/hubbub/web is fresh
	@sh scripts/node.sh $(VENV) node check.mjs || { [ $$? = 75 ] && \
	    echo "SKIPPED: the checks of web/ need Node, which cannot be installed here" >&2; }

spec: $(DEV_READY) $(PIPELINE_READY) ## list which behaviours of the specification the tests prove
	@$(BIN)/python scripts/spec_coverage.py $(ARGS)

bench: $(BENCH_READY) $(PIPELINE_READY) ## measure, side by side with other hubs
	@$(BIN)/python -m benchmarks $(ARGS)

bench-pipeline: $(BENCH_READY) $(PIPELINE_READY) ## measure the pipeline, side by side with DuckDB
	@sh scripts/java.sh
	@$(BIN)/python -m benchmarks.pipeline $(ARGS)

soak: $(DEV_READY) ## half an hour of churn, restarts and crashes (ARGS=--quick: a minute)
	@$(BIN)/python -m benchmarks.soak $(ARGS)

soak-dashboard: $(DEV_READY) ## an hour with an open dashboard: its heap stays flat (ARGS="--minutes 10")
	@sh scripts/browser.sh $(VENV)
	@$(BIN)/python -m benchmarks.dashboard_hour $(ARGS)

faults: $(DEV_READY) ## kill processes 500 times, on each store, and check what is left (long)
	@$(BIN)/pytest tests/faults --long -k "five_hundred" $(ARGS)

faults-communication: $(DEV_READY) ## kill a hub that sends messages to peers 100 times, and check every verdict (long)
	@$(BIN)/pytest tests/faults/test_communication_kills.py --long -s $(ARGS)

faults-pipeline: $(DEV_READY) $(PIPELINE_READY) ## kill the pipeline's processes at every stage, and compare tables (long)
	@sh scripts/java.sh
	@$(BIN)/pytest tests/pipeline/spark/test_kills.py --long -s $(ARGS)

campaign: $(DEV_READY) ## one such run with a seed and a number of kills (ARGS="--kills 20 --seed 1")
	@PYTHONPATH=.:tests $(BIN)/python -m faults.exactly_once.campaign $(ARGS)

attack: $(BENCH_READY) ## attack a hub with two tenants in every way, and tell what held (ARGS=--quick)
	@PYTHONPATH=.:tests $(BIN)/python -m attack $(ARGS)

attack-plugins: $(BENCH_READY) ## what hostile plugins get, and how another tenant fares meanwhile
	@PYTHONPATH=.:tests $(BIN)/python -m attack.plugins

bench-once: $(BENCH_READY) ## measure exactly-once beside JetStream (ARGS=--quick: less data)
	@$(BIN)/python -m benchmarks.once $(ARGS)

bench-sdk: $(DEV_READY) ## CPU of the JavaScript SDK per message, beside centrifuge-js (ARGS=MESSAGES)
	@sh scripts/node.sh $(VENV) node --expose-gc sdk/bench/cpu.mjs $(ARGS)

bench-comeback: $(DEV_READY) ## how 5,000 clients of the JavaScript SDK come back after SIGKILL of their hub (ARGS=--quick)
	@sh scripts/node.sh $(VENV) true && PYTHONPATH=.:tests $(BIN)/python -m benchmarks.comeback $(ARGS)

bench-turns: $(BENCH_READY) ## CPU for each operation against another checkout, in turns (BASE=path)
	@$(BIN)/python -m benchmarks.turns --base $(BASE) $(ARGS)

bench-webhooks: $(BENCH_READY) ## measure webhooks, also to dead receivers (ARGS=--quick: fewer runs)
	@$(BIN)/python -m benchmarks.webhooks $(ARGS)

bench-communication: $(BENCH_READY) ## measure messages to peers as the SmartCom report did, beside ActiveMQ (ARGS=--quick)
	@$(BIN)/python -m benchmarks.communication $(ARGS)

bench-cluster: $(BENCH_READY) ## measure a cluster whose fourth node comes and dies (ARGS=--quick)
	@$(BIN)/python -m benchmarks.cluster $(ARGS)

faults-cluster: $(DEV_READY) ## have every part of a cluster fail under load, and check what is left (long)
	@PYTHONPATH=.:tests $(BIN)/python -m faults.cluster.campaign $(ARGS)

faults-documents: $(DEV_READY) ## kill the owner of a document 100 times while clients edit it (long)
	@$(BIN)/pytest tests/faults/test_documents_campaign.py --long -s -k hundred $(ARGS)

docs: $(DOCS_READY) ## build the documentation site in ./site; a link that leads nowhere fails
	@$(BIN)/mkdocs build --strict --quiet && echo "site/index.html is ready"

format: $(DEV_READY) ## put the code into the house's form
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .
	@sh scripts/node.sh $(VENV) node_modules/.bin/biome check --write --log-level=error . || [ $$? = 75 ]

proto: $(DEV_READY) ## write the code of spec/hubbub.proto again
	@sh scripts/generate-protobuf.sh

requirements: $(DEV_READY) ## pin requirements/*.txt again, with hashes (ARGS="--upgrade-package NAME")
	@sh scripts/pin-requirements.sh $(ARGS)

clean: ## remove what was built (not ./data)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis site
