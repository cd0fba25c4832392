PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: test lint types unit test-oldest clean
.DEFAULT_GOAL := test

# Everything that continuous integration checks; sets up its own environment.
test: lint types unit

$(INSTALLED): pyproject.toml $(CONSTRAINTS)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[gguf,dev]"
	touch $(INSTALLED)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)
	$(BIN)/mypy

unit: $(INSTALLED)
	$(BIN)/python -m pytest

# The tests with the oldest transformers that is supported, in an environment of its own.
test-oldest:
	$(MAKE) unit VENV=.venv-oldest CONSTRAINTS=constraints-oldest.txt

clean:
	rm -rf .venv .venv-oldest .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
