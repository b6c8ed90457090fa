# The two commands of the README are `make demo` and `make test`; each does all the set-up.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip --disable-pip-version-check --quiet
INPUTS := pyproject.toml bench/pyproject.toml constraints.txt src/unlabel/_version.py

.PHONY: demo desk-demo test stress stress-quick federation-demo federation-test check wheel-demo lint types docs site docs-figures related-work reproduction bench-small fuzz clean help

help:            ## show this list
	@grep -E '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 16

demo: $(VENV)/.base   ## two parties train, forget a digit, audit and certify it
	$(BIN)/unlabel demo

desk-demo: $(VENV)/.dev   ## open the erasure desk on a run with three requests in different states
	$(BIN)/unlabel desk --demo runs/desk-demo

# Small models are as fast with one thread, and two would spin where others want the cores.
test: $(VENV)/.dev    ## the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# Fuzzing, hostile parties and faults; `quick` leaves out what takes long.
stress-quick: $(VENV)/.dev   ## fuzzing, hostile parties and faults, in their short forms
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/stress -n 2 --dist loadfile

stress: stress-quick $(VENV)/.federation   ## the same at length, and all other tests that take long
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests tests/stress -m long -n 2 --dist loadfile
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/federation -m long

federation-demo: $(VENV)/.federation   ## three parties in processes of their own, over mutual TLS
	$(BIN)/unlabel federation demo

# Parties wait for each other half of the time.
federation-test: $(VENV)/.dev $(VENV)/.federation   ## the tests of parties in processes of their own
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/federation -n 3 --dist loadfile

check: lint types test federation-test stress docs site wheel-demo   ## everything that must hold before a commit

# As somebody without the clone would: a wheel, an empty environment, an empty folder.
wheel-demo: $(BIN)/python   ## install a wheel into an empty environment and run the demo from it
	rm -rf build/wheel && mkdir -p build/wheel/here
	$(PIP) wheel --no-deps --wheel-dir build/wheel .
	$(PYTHON) -m venv build/wheel/env
	build/wheel/env/bin/pip --disable-pip-version-check --quiet install --constraint constraints.txt build/wheel/*.whl
	cd build/wheel/here && ../env/bin/unlabel demo

lint: $(VENV)/.dev    ## formatting and lint
	$(BIN)/ruff format --check src bench tests docs tools
	$(BIN)/ruff check src bench tests docs tools

types: $(VENV)/.dev   ## mypy strict
	$(BIN)/mypy

docs: $(VENV)/.dev    ## run every example in the docs and docstrings; pages agree with the code
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest docs -n 2 --dist worksteal
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --doctest-modules src -n 2

# Pages go into the site as they lie here, so that their links hold there too; a dead link fails.
site: $(VENV)/.site   ## the pages as a site with search, in build/site/html
	rm -rf build/site && mkdir -p build/site/source
	cp -r README.md CHANGELOG.md CONTRIBUTING.md docs results deploy build/site/source
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Read it: $(PYTHON) -m http.server --directory build/site/html"

docs-figures: $(VENV)/.base   ## write the recorded figures into docs/methods.md
	$(BIN)/python tools/methods_figures.py
	$(BIN)/python tools/robustness_figures.py

related-work: $(VENV)/.base   ## write the tables of docs/related-work.md
	$(BIN)/python tools/related_work.py

reproduction: $(VENV)/.base   ## write docs/reproduction.md and docs/gallery.md from results/
	$(BIN)/python tools/reproduction.py
	$(BIN)/python tools/gallery.py

bench-small: $(VENV)/.dev   ## every table and figure of the paper in its small form, on two cores
	OMP_NUM_THREADS=1 $(BIN)/unlabel bench paper all --small --out runs/paper/small.json

fuzz: $(VENV)/.dev    ## 100,000 hostile messages into the codec and a party
	$(BIN)/unlabel bench fuzz-wire --set count=100000 --out results/fuzz_wire.json

clean:           ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis build src/*.egg-info

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "unlabel needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(BIN)/python $(INPUTS)
	@echo "Installing unlabel into $(VENV) (once; PyTorch is large) ..."
	$(PIP) install --constraint constraints.txt --editable . --editable ./bench
	@touch $@

$(VENV)/.dev: $(VENV)/.base
	@echo "Installing what the tests need ..."
	$(PIP) install --constraint constraints.txt --editable '.[dev]' --editable ./bench
	@touch $@

# All of it at once, where all is wanted; what is never imported need not be compiled. (With
# PYTHONDONTWRITEBYTECODE set nothing would be kept, and every start of Python take seconds longer.)
$(VENV)/.all: $(BIN)/python $(INPUTS)
	@echo "Installing unlabel and what all tests need into $(VENV) (once; PyTorch is large) ..."
	$(PIP) install --no-compile --constraint constraints.txt --editable '.[dev,federation,flare]' --editable ./bench
	@touch $(VENV)/.base
	@touch $(VENV)/.dev $(VENV)/.federation $@

$(VENV)/.federation: $(VENV)/.base
	@echo "Installing what a federation needs ..."
	$(PIP) install --constraint constraints.txt --editable '.[federation,flare]' --editable ./bench
	@touch $@

$(VENV)/.site: $(VENV)/.base
	@echo "Installing what the site needs ..."
	$(PIP) install --constraint constraints.txt --editable '.[site]' --editable ./bench
	@touch $@
