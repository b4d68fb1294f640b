# make test: a virtual environment with the tested versions, then lint and tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: help test lint format install clean

help:  ## show the targets
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*##/\t/'

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade -c constraints.txt pip
	# torch first: its own version decides which build the others see
	$(BIN)/pip install --quiet -c constraints.txt torch
	$(BIN)/pip install --quiet -c constraints.txt -e ".[dev]"
	touch $@

install: $(VENV)/installed  ## create the virtual environment

lint: install  ## check format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

format: install  ## format and mend style
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: lint  ## lint and run all tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
