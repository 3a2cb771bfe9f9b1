# Front door: each target sets up what it needs, from Python and make alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: help demo test torch fuzz lint dist bench clean

help:
	@echo "make demo   train on the yeast data under all three challenges, print a table"
	@echo "make test   unit tests; those of naim3l.deep only after make torch"
	@echo "make torch  add torch to the environment, from the index that pip is set to"
	@echo "make fuzz   damaged and hostile files of every format; MINUTES=5, SEED=0"
	@echo "make lint   style, types, layers"
	@echo "make dist   build wheel and sdist, try each in an empty environment"
	@echo "make bench  benchmarks; DATA=folder adds those on real datasets"
	@echo "make clean  remove the environment and what was built"

demo: $(VENV)/.run
	$(BIN)/naim3l demo

test: $(VENV)/.test
	$(BIN)/python -m pytest -n auto --dist worksteal

torch: $(VENV)/.torch

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
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

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

# Apart from .test, since what an index calls torch may bring gigabytes of CUDA along; to get a CPU
# build, set pip to an index that has one.
$(VENV)/.torch: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --editable '.[torch]'
	touch $@
