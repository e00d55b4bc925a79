# make demo: the sample that ships inside the package. make test: lint, types, all tests.
# Both make .venv and install what they need, once; without a change to what is built they need no network again.

PYTHON ?= python3
BIN := .venv/bin
BUILT := pyproject.toml CMakeLists.txt Makefile $(wildcard src/boxscore/native/*.cpp src/boxscore/native/*.h)
BUILD_TOOLS := "scikit-build-core>=0.10" "nanobind>=2.4"
PEERS := hotcoco ultrafast-pycocotools vernier faster-coco-eval pycocotools torchmetrics
INSTALL := $(BIN)/pip install --quiet --no-build-isolation --editable

.PHONY: demo test bench lint types clean

demo: .venv/.installed
	@$(BIN)/boxscore demo

test: lint types
	$(BIN)/pytest --numprocesses 2

# boxscore and its peers in an environment of their own; takes about a quarter of an hour.
bench: .venv-bench/.installed
	.venv-bench/bin/python -m benchmarks

.venv-bench/.installed: $(BUILT) $(wildcard src/boxscore/*.py src/boxscore/*/*.py)
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet torch==2.13.0
	.venv-bench/bin/pip install --quiet $(PEERS) .
	@touch $@

lint: .venv/.installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed-for-tests
	$(BIN)/mypy

.venv/bin/python:
	$(PYTHON) -m venv .venv

# The tools that build the engine stay in .venv, so that building it again needs no network.
.venv/.installed: $(BUILT) | .venv/bin/python
	$(BIN)/pip install --quiet $(BUILD_TOOLS)
	$(INSTALL) .
	@touch $@

# torch comes first, pinned: whatever asks for it later is content with this one.
.venv/.installed-for-tests: $(BUILT) | .venv/bin/python
	$(BIN)/pip install --quiet torch==2.13.0 $(BUILD_TOOLS)
	$(INSTALL) '.[test]'
	@touch $@ .venv/.installed

clean:
	rm -rf .venv .venv-bench build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
