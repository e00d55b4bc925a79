# make demo: the sample that ships inside the package. make test: lint, types, all tests.
# Both make .venv and install what they need, once; without a change here or in pyproject.toml they need no network again.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint types clean

demo: .venv/.installed
	@$(BIN)/boxscore demo

test: lint types
	$(BIN)/pytest --numprocesses 2

lint: .venv/.installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed-for-tests
	$(BIN)/mypy

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.installed: pyproject.toml Makefile | .venv/bin/python
	$(BIN)/pip install --quiet --editable .
	@touch $@

# torch comes first, pinned: whatever asks for it later is content with this one.
.venv/.installed-for-tests: pyproject.toml Makefile | .venv/bin/python
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable '.[test]'
	@touch $@ .venv/.installed

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
