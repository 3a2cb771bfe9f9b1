# Front door: each target sets up what it needs, from Python and make alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip --disable-pip-version-check install --quiet
PIP := $(BIN)/python $(INSTALL) --constraint constraints.txt
# Environments of their own, so that what they add or hold back is in no other.
EXTRAS := .venv-extras
OLDEST := .venv-oldest
TESTS := -m pytest -n auto --dist worksteal

.PHONY: help demo test test-extras test-oldest fuzz lint dist bench clean

help:
	@echo "make demo         train on the yeast data under all three challenges, print a table"
	@echo "make test         unit tests, in random order; SEED=number repeats an order"
	@echo "make test-extras  tests that need torch or the real datasets, with torch installed"
	@echo "make test-oldest  unit tests with the oldest versions that pyproject.toml allows"
	@echo "make fuzz         damaged and hostile files of every format; MINUTES=5, SEED=0"
	@echo "make lint         style, types, layers"
	@echo "make dist         build wheel and sdist, try each in an empty environment"
	@echo "make bench        benchmarks; DATA=folder adds those on real datasets"
	@echo "make clean        remove the environments and what was built"

demo: $(VENV)/.run
	$(BIN)/naim3l demo

# There is a process for each core: threads of BLAS beside them would wait for each other.
test test-extras test-oldest: export OPENBLAS_NUM_THREADS = 1

test: $(VENV)/.test
	$(BIN)/python $(TESTS) $(if $(SEED),--randomly-seed=$(SEED))

test-extras: $(EXTRAS)/.test
	$(EXTRAS)/bin/python $(TESTS) -m "torch or data"

test-oldest: $(OLDEST)/.test
	$(OLDEST)/bin/python $(TESTS) -W ignore::DeprecationWarning  # of what is newer beside them

fuzz: MINUTES ?= 5
fuzz: SEED ?= 0
fuzz: $(VENV)/.test
	$(BIN)/python tests/fuzz_files.py --minutes $(MINUTES) --seed $(SEED)

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

dist: $(VENV)/.dev
	rm -rf dist build
	$(BIN)/python -m build --outdir dist
	for package in dist/*.whl dist/*.tar.gz; do \
	    rm -rf build/empty && $(PYTHON) -m venv build/empty && \
	    build/empty/bin/python -m pip --disable-pip-version-check install --quiet \
	        --constraint constraints.txt "$$package" && \
	    (cd build && empty/bin/naim3l --version && empty/bin/naim3l demo --seeds 1) || exit 1; \
	done

bench: $(VENV)/.test
	$(BIN)/python benchmarks/bench_metrics.py
	$(BIN)/python benchmarks/bench_solvers.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/bench_growth.py
	$(BIN)/python benchmarks/bench_subgradient.py
	$(BIN)/python benchmarks/bench_blas.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/bench_kernel.py $(if $(DATA),--data $(DATA))
	$(if $(DATA),$(BIN)/python benchmarks/corel5k.py $(DATA)/corel5k_lear4.npz)

clean:
	rm -rf $(VENV) $(EXTRAS) $(OLDEST) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "naim3l needs Python 3.11 or newer; set PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable .
	touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[test]'
	touch $@ $(VENV)/.run

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.run $(VENV)/.test

# What an index calls torch may bring gigabytes of CUDA along; to get a CPU build, set pip to an
# index that has one.
$(EXTRAS)/.test: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/python $(INSTALL) --constraint constraints.txt --editable '.[test,torch]'
	touch $@

$(OLDEST)/.test: pyproject.toml tools/oldest.py
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tools/oldest.py > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python $(INSTALL) --constraint $(OLDEST)/oldest.txt --editable '.[test]'
	touch $@
