# Everything a clone needs: `make demo` trains and registers a model, `make test` proves the rest.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint .ci/constraints.txt
INPUTS := pyproject.toml .ci/constraints.txt

.DEFAULT_GOAL := help
.PHONY: help demo test test-all long fast check coverage mutants format horovod bench gpu-kit soak fuzz golden components changelog picture recording docs browser clean

help: ## print this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 16

demo: $(VENV)/.demo ## train, evaluate and register a model here: two processes, real data
	$(BIN)/worldsize run pipelines/digits_ddp.yml

# Two workers; a file's tests stay together, since they share what they have trained or served.
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -q
FAST   := not run and not bench
TEST   := not bench and (not run or smoke)
LONG   := run and not bench and (not smoke or horovod)

test: $(VENV)/.all browser ## every rule, law and golden, and one real run of each kind: eight minutes on two cores
	$(PYTEST) -m "$(TEST)"

test-all: test long ## every test: half an hour more

long: $(VENV)/.all $(VENV)/.horovod browser # what `make test` leaves out
	$(PYTEST) -m "$(LONG)" -rs

fast: $(VENV)/.all ## the fast tests only: two minutes
	$(PYTEST) -m "$(FAST)"

check: $(VENV)/.all ## format, lint, types, fast tests and our own checker on our own files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/worldsize check .
	$(PYTEST) -m "$(FAST)"

format: $(VENV)/.all ## rewrite the sources as `make check` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.all $(VENV)/.horovod ## speed, as ratios against named peers
	$(BIN)/pytest tests/benchmarks -m bench -q -s --timeout 1800

# What a machine with a GPU and torch lacks. Its Python is not known, so that what is compiled travels for three.
KIT     := build/gpu-kit
LINUX   := --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64
FETCH    = $(BIN)/python -m pip download --quiet --only-binary :all: $(LINUX) --constraint .ci/constraints.txt
gpu-kit: $(VENV)/.all ## build build/gpu-kit, with which tests/gpu/prove.py tries all this on a GPU
	rm -rf $(KIT) && mkdir -p $(KIT)
	$(BIN)/python -m pip wheel --quiet --no-deps --constraint .ci/constraints.txt --wheel-dir $(KIT) . deepspeed
	for minor in 11 12 13; do $(FETCH) --python-version 3.$$minor --dest $(KIT) $(KIT)/worldsize-*.whl \
	  einops hjson msgpack ninja psutil py-cpuinfo pydantic tqdm || exit; done
	@du -sm $(KIT) | awk '{ print $$1 " MiB"; exit $$1 > 60 }'

soak: $(VENV)/.all $(VENV)/.horovod ## kill runs, trainings and the local workspace at random for an hour; prints what was lost
	$(BIN)/python tests/soak/kills.py --runs 100
	$(BIN)/python tests/soak/register_kills.py --kills 20
	$(BIN)/python tests/soak/kill_table.py ddp horovod tensorflow --minutes 20
	$(BIN)/python tests/soak/serve_kills.py --kills 100

fuzz: $(VENV)/.all ## throw hostile files at everything that reads, for half an hour
	$(BIN)/python tests/fuzz/check.py --seconds 600
	$(BIN)/python tests/fuzz/layers.py --seconds 600
	$(BIN)/python tests/fuzz/hostile.py
	$(BIN)/python tests/fuzz/foreign_files.py
	$(BIN)/python tests/fuzz/serve.py --requests 10000
	$(BIN)/python tests/fuzz/full_disk.py --disk

# The processes that tests start are measured too: they find the configuration by the variable.
MEASURED := COVERAGE_PROCESS_START=$(CURDIR)/pyproject.toml
coverage: $(VENV)/.all $(VENV)/.horovod browser ## which lines only the long tests run, and that they are few
	mkdir -p build/coverage
	$(MEASURED) COVERAGE_FILE=$(CURDIR)/build/coverage/test $(PYTEST) -m "$(TEST)" --cov --cov-context test --cov-report=
	$(MEASURED) COVERAGE_FILE=$(CURDIR)/build/coverage/long $(PYTEST) -m "$(LONG)" --cov --cov-context test --cov-report=
	$(BIN)/python tests/net/coverage_gap.py build/coverage/test build/coverage/long

mutants: $(VENV)/.all $(VENV)/.horovod ## put small faults into modules and count which tests notice; after `make coverage`
	$(BIN)/python tests/net/mutants.py --contexts build/coverage/test build/coverage/long

golden: $(VENV)/.all ## rewrite the committed expectations; read the diff before you commit it
	$(BIN)/pytest -m "not bench" -q --update-golden tests/golden tests/rules tests/repo

components: $(VENV)/.all ## write the trainers' component.yml from their component.yml.in, and every version
	$(BIN)/python tests/repo/component_files.py

# An entry that is written by hand, `(unreleased)`, follows what is joined, below one heading.
changelog: $(VENV)/.all ## at a release: join compiler/changelog.d, below the version and today's date
	sed -i.old '/^## .* (unreleased)$$/{N;d;}' CHANGELOG.md && rm CHANGELOG.md.old
	$(BIN)/towncrier build --yes

picture: $(VENV)/.all ## draw the packages and their imports into CONTRIBUTING.md
	$(BIN)/python tests/repo/architecture.py --write

recording: $(VENV)/.all ## run the digits pipeline in a terminal and draw it for the README
	$(BIN)/python tests/support/record_run.py

docs: $(VENV)/.all ## build the documentation site in build/site, with strict links
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --config-file compiler/mkdocs.yml

# Debian's Chromium, for the tests of the page. It never fails; without a browser those tests are skipped.
browser: ## install Chromium for the tests, where root and apt-get are
	@.ci/browser

clean: ## remove what was installed and run
	rm -rf $(VENV) .worldsize build dist

# A stamp is newer than what it installed from: the second call of any target starts at once.
$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "worldsize needs Python 3.10 or newer; say make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(INPUTS) | $(BIN)/python
	$(PIP) --editable '.[run]'
	touch $@

$(VENV)/.all: $(INPUTS) | $(BIN)/python
	$(PIP) --editable '.[run,serve,tensorflow,deepspeed,transformers,lightning,mpi,sweep,lsp,azure,test,docs,dev]'
	touch $@ $(VENV)/.demo

# Horovod has no wheel. Built once for this Python, torch and Open MPI, it is kept outside of the clone.
HOROVOD := components/train_horovod/environment/build_horovod.py
horovod: $(VENV)/.horovod ## build Horovod, for pipelines/digits_horovod.yml

$(VENV)/.horovod: $(HOROVOD) $(VENV)/.all
	$(BIN)/python $(HOROVOD)
	touch $@
