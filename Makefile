PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
OLDEST := .venv-oldest
PROCESSES ?= 2
OLDEST_PROCESSES ?= $(PROCESSES)
# Each process takes tests that stand together, so that a model, a page or a site is made once for them.
PYTEST := -m pytest --dist worksteal --numprocesses
TESTS ?= tests
# What depends on the versions of transformers and of the other libraries, and was seen to pass with the lowest.
OLDEST_TESTS := $(addprefix tests/test_,golden.py neurons.py translators.py cli.py)
BUILT_FROM := pyproject.toml setup.py src/whyword/maths/kernel.cpp

.PHONY: demo install test lint types unit coverage fuzz proof sweep docs dist wheel install-oldest test-oldest picture clean
.DEFAULT_GOAL := test

# Explain one prediction of a real model by three methods; sets up its own environment.
demo: $(INSTALLED)
	$(BIN)/whyword explain "A report about the Impressionists" --target has --foil have \
	  --method flow --method alti-logit --method logit --output demo.html
	@echo
	@echo "demo.html has every block, every head and the ledger: open it in a browser."
	@echo "To ask your own questions on a page, start it and open the address it prints:"
	@echo '  $(BIN)/whyword serve'
	@echo "Or in the terminal:"
	@echo '  $(BIN)/whyword explain "The keys to the cabinet" --target are --foil is'
	@echo '  $(BIN)/whyword explain "The capital of France is" --continue 8'
	@echo '  $(BIN)/whyword predict "The capital of France is" --top 5'
	@echo '  $(BIN)/whyword explain --help'

# Everything that continuous integration checks; sets up its own environment.
test: lint types unit docs

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(VENV)/bin/python $(BUILT_FROM) $(CONSTRAINTS)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[serve]"
	touch $(INSTALLED)

# --no-compile: few of the many files are ever imported, and those are compiled then.
install: $(INSTALLED_DEV)

$(INSTALLED_DEV): $(VENV)/bin/python $(BUILT_FROM) $(CONSTRAINTS) tests/pipeline.txt
	$(BIN)/python -m pip install --quiet --no-compile --constraint $(CONSTRAINTS) --editable ".[plots,pandas,evidence,serve,docs,dev]"
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement tests/pipeline.txt
	touch $(INSTALLED) $(INSTALLED_DEV)

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED_DEV)
	$(BIN)/mypy

# Several processes of one thread each are faster here than one process of several threads.
unit: $(INSTALLED_DEV)
	OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST) $(PROCESSES) $(TESTS)

# Which lines of the library the tests run; those that only a command in a process of its own runs are not counted.
coverage: $(INSTALLED_DEV)
	rm -rf .coverage && mkdir .coverage
	OMP_NUM_THREADS=1 WHYWORD_COVERAGE=.coverage $(BIN)/python $(PYTEST) $(PROCESSES) $(TESTS)
	$(BIN)/python tests/line_coverage.py .coverage

# Ten thousand damaged inputs for every reader, and a hundred runs that two processes fight over and that are killed.
fuzz: $(INSTALLED_DEV)
	OMP_NUM_THREADS=1 WHYWORD_FUZZ=10000 WHYWORD_CYCLES=100 $(BIN)/python $(PYTEST) $(PROCESSES) -o faulthandler_timeout=0 \
	  tests/test_fuzz.py tests/test_kinds.py tests/test_evaluation.py -k "fuzz or mutated or killed"

# A thousand prompts of every kind of family in both half precisions: no false alarm, and planted errors are found.
proof: $(INSTALLED_DEV)
	OMP_NUM_THREADS=1 WHYWORD_PROMPTS=1000 $(BIN)/python $(PYTEST) $(PROCESSES) tests/test_recorded_run.py -k half_precision

docs: $(INSTALLED_DEV)
	$(BIN)/python docs/generate_command.py --check
	$(BIN)/python docs/generate_schemas.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # not --quiet: that drops the warnings it counts

# Build the wheel, install it alone in an environment of its own with the lowest versions, and run its command there.
wheel: $(OLDEST)/.installed
	cd $(OLDEST) && bin/whyword --version
	cd $(OLDEST) && bin/whyword explain "A report about the Impressionists" -t has -f have --by word -o report.html

dist: dist/.built

dist/.built: $(BUILT_FROM) $(shell find src/whyword -type f ! -name '*.so' ! -name '*.pyc')
	rm -rf dist $(OLDEST)
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	touch $@

$(OLDEST)/.installed: dist/.built constraints-oldest.txt
	$(OLDEST)/bin/python -m pip install --quiet --no-compile --constraint constraints-oldest.txt dist/*.whl
	touch $@

$(OLDEST)/.installed-test: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m pip install --quiet --no-compile --constraint constraints-oldest.txt \
	  "$$(echo dist/*.whl)[plots,pandas,serve,test]"
	touch $@

install-oldest: $(OLDEST)/.installed-test

# Tests against that wheel, with the lowest versions of everything it depends on, the oldest transformers among them;
# not those that stop a process or its reader, which depend on no version.
test-oldest: install-oldest
	OMP_NUM_THREADS=1 $(OLDEST)/bin/python $(PYTEST) $(OLDEST_PROCESSES) -m "not hub and not real" \
	  -k "not interrupted and not leaves" $(OLDEST_TESTS)

# Every causal model type of the installed transformers: takes about ten minutes, and writes docs/sweep.md.
sweep: $(INSTALLED_DEV)
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(BIN)/python docs/generate_sweep.py

# The picture in the README.
picture: $(INSTALLED_DEV)
	$(BIN)/python docs/draw_terminal.py docs/terminal.svg

clean:
	rm -rf .venv $(OLDEST) .cache .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist site demo.html src/whyword/maths/*.so
