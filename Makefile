PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
WHEEL_VENV := .venv-wheel
PROCESSES ?= 2
TESTS ?= tests
FAMILY_TESTS := $(addprefix tests/test_,baselines.py doctor.py golden.py identities.py neurons.py proof.py reference.py translation.py translators.py) \
  tests/test_alignment.py::test_measures_are_what_their_formulas_say
BUILT_FROM := pyproject.toml setup.py src/whyword/maths/kernel.cpp

.PHONY: demo test lint types unit docs wheel test-oldest picture clean
.DEFAULT_GOAL := test

# Explain one prediction of a real model by both methods; sets up its own environment.
demo: $(INSTALLED)
	$(BIN)/whyword explain "A report about the Impressionists" --target has --foil have \
	  --method alti-logit --method logit --output demo.html
	@echo
	@echo "demo.html has every block, every head and the ledger: open it in a browser."
	@echo "To ask your own questions on a page, start it and open the address it prints:"
	@echo '  $(BIN)/whyword serve'
	@echo "Or in the terminal:"
	@echo '  $(BIN)/whyword explain "The keys to the cabinet" --target are --foil is --by word'
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

$(INSTALLED_DEV): $(VENV)/bin/python $(BUILT_FROM) $(CONSTRAINTS) tests/pipeline.txt
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[plots,pandas,evidence,serve,docs,dev]"
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --requirement tests/pipeline.txt
	touch $(INSTALLED) $(INSTALLED_DEV)

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED_DEV)
	$(BIN)/mypy

# Several processes of one thread each are faster here than one process of several threads.
unit: $(INSTALLED_DEV)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(PROCESSES) $(TESTS)

docs: $(INSTALLED_DEV)
	$(BIN)/python docs/generate_command.py --check
	$(BIN)/python docs/generate_schemas.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # not --quiet: that drops the warnings it counts

# Build the wheel, install it in an environment of its own, and run its command there.
wheel: $(INSTALLED_DEV)
	rm -rf dist $(WHEEL_VENV)
	$(BIN)/python -m build --wheel --outdir dist .
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install --quiet --constraint $(CONSTRAINTS) dist/*.whl
	cd $(WHEEL_VENV) && bin/whyword --version
	cd $(WHEEL_VENV) && bin/whyword explain "A report about the Impressionists" -t has -f have --by word -o report.html

# What must hold for every family, with the oldest transformers that is supported, in an environment of its own.
test-oldest:
	$(MAKE) unit VENV=.venv-oldest CONSTRAINTS=constraints-oldest.txt TESTS="$(FAMILY_TESTS)"

# The picture in the README.
picture: $(INSTALLED_DEV)
	$(BIN)/python docs/draw_terminal.py docs/terminal.svg

clean:
	rm -rf .venv .venv-oldest $(WHEEL_VENV) .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist site demo.html src/whyword/maths/*.so
