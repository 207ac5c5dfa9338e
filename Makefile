# Everything a newcomer or a machine runs. The first call makes .venv and builds the core; later calls are quick.
PYTHON ?= python3
TORCH ?= torch==2.13.0
CONSTRAINTS ?= constraints.txt
VENV ?= .venv

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --quiet --constraint $(CONSTRAINTS)
PACKAGE := $(INSTALL) --no-build-isolation --editable
SOURCES := pyproject.toml CMakeLists.txt $(wildcard csrc/*)

.DEFAULT_GOAL := help
.PHONY: help quickstart test test-slow lint format bench docs sanitize clean distclean

help:
	@echo "make quickstart   install into $(VENV) and run the demo"
	@echo "make test         run the tests; test-slow runs the long ones"
	@echo "make lint         check format, lint, types and layers; format rewrites"
	@echo "make sanitize     run the native core's tests under ASan and UBSan"
	@echo "make bench        time the operations; docs builds the manual; clean removes what was built"

quickstart: $(VENV)/.package
	$(BIN)/siggpde demo --output quickstart --force

test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" --numprocesses=auto --maxprocesses=4 --dist=worksteal

test-slow: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow --numprocesses=auto --maxprocesses=2 --dist=worksteal

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/ops.py

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python docs/check_links.py site README.md CONTRIBUTING.md CHANGELOG.md

# Torch comes first and pinned, so that nothing installed later can choose another build of it.
$(VENV)/.torch:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet "$(TORCH)"
	@touch $@

# The build tools live in the environment (no build isolation): they are pinned, and rebuilds are incremental.
$(VENV)/.tools: constraints.txt | $(VENV)/.torch
	$(INSTALL) scikit-build-core nanobind cmake ninja
	@touch $@

$(VENV)/.package: $(VENV)/.tools $(SOURCES)
	$(PACKAGE) .
	@touch $@

$(VENV)/.dev: $(VENV)/.tools $(SOURCES)
	$(PACKAGE) ".[dev]"
	@touch $(VENV)/.package $@

$(VENV)/.docs: $(VENV)/.tools $(SOURCES)
	$(PACKAGE) ".[docs]"
	@touch $(VENV)/.package $@

$(VENV)/.bench: $(VENV)/.tools $(SOURCES)
	$(PACKAGE) ".[bench]"
	@touch $(VENV)/.package $@

# A second copy of the package with an instrumented core. `python -S` leaves out the hook of the editable install,
# which would otherwise come before PYTHONPATH.
SANITIZED := build/sanitize
# Tests of threads on large batches, and of whole data sets, would take the slowed core half an hour.
SANITIZE_SKIP ?= not change_no_bit and not disturb_each_other and not series_of and not memory
SANITIZE_TESTS ?= tests/gp/test_paper_schedule.py $(wildcard tests/paper/gpsig/test_*_levels.py) $(wildcard tests/numerics/test_[klnsw]*.py)

$(SANITIZED)/.built: $(VENV)/.dev $(SOURCES) $(shell find src -name '*.py')
	rm -rf $(SANITIZED)/site
	CXX=$(CXX) $(INSTALL) --no-build-isolation --no-deps --target $(SANITIZED)/site . \
	  --config-settings=build-dir=$(SANITIZED)/cmake \
	  --config-settings=cmake.define.SIGGPDE_SANITIZE=ON
	@touch $@

sanitize: $(SANITIZED)/.built
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	PYTHONPATH="$(CURDIR)/$(SANITIZED)/site:$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	$(BIN)/python -S -m pytest -m "not slow" -k "$(SANITIZE_SKIP)" $(SANITIZE_TESTS)

clean:
	rm -rf build dist site quickstart .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
