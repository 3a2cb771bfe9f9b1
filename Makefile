# Each target sets up the environment that it needs; only Python and make are required.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip --disable-pip-version-check install --quiet
# Exact versions; "make test PINS=" installs the newest ones that pyproject.toml allows.
PINS := --constraint constraints.txt
PIP := $(BIN)/python $(INSTALL) $(PINS)
# Separate environments, so that their extra or older packages do not affect the others.
EXTRAS := .venv-extras
OLDEST := .venv-oldest
DOCS := .venv-docs
BENCH := .venv-bench
FLWR := .venv-flwr
SITE := docs/_build/html
TESTS := -m pytest -n auto --dist worksteal

.PHONY: help demo test test-flwr test-extras test-bench test-oldest fuzz lint docs dist dist-extras bench clean

help:
	@echo "make demo         train on the yeast data under all three challenges and print a table"
	@echo "make test         run the unit tests in random order; SEED=number repeats an order"
	@echo "make test-extras  run the slow tests, and those that need torch, dask, databases or real data"
	@echo "make test-flwr    run the tests that need Flower, in an environment of its own"
	@echo "make test-bench   run the tests of the laboratory, bench/, in an environment of its own"
	@echo "make test-oldest  run the unit tests with the oldest versions that pyproject.toml allows"
	@echo "make fuzz         read damaged and hostile files of every format; MINUTES=5, SEED=0"
	@echo "make lint         check style, types, import layers, docstrings and CITATION.cff"
	@echo "make docs         build the documentation site, docs/_build/html, and check it in a browser"
	@echo "make dist         build wheels and sdists, and test each in an empty environment"
	@echo "make dist-extras  the same, then install each extra of the wheel alone, and use it"
	@echo "make bench        run the benchmarks; DATA=folder adds those on real datasets"
	@echo "make clean        remove the environments and all build output"

demo: $(VENV)/.run
	$(BIN)/naim3l demo

# Tests run one process per core, so additional BLAS threads would only compete with them.
test test-extras test-flwr test-bench test-oldest docs: export OPENBLAS_NUM_THREADS = 1

test: $(VENV)/.test
	$(BIN)/python $(TESTS) -m "not slow" $(if $(SEED),--randomly-seed=$(SEED))

test-extras: $(EXTRAS)/.test
	$(EXTRAS)/bin/python $(TESTS) -m "torch or data or dask or places or slow"
	cd bench && ../$(EXTRAS)/bin/python $(TESTS) -m torch

# Warnings are of packages that Flower brings, and of threads that still listen when a test ends.
test-flwr: $(FLWR)/.test
	$(FLWR)/bin/python $(TESTS) -m flwr -W ignore::DeprecationWarning -W ignore::ResourceWarning \
	    -W ignore::pytest.PytestUnraisableExceptionWarning

test-bench: $(BENCH)/.test
	cd bench && ../$(BENCH)/bin/python $(TESTS) $(if $(SEED),--randomly-seed=$(SEED))

test-oldest: $(OLDEST)/.test
	$(OLDEST)/bin/python $(TESTS) -m "not slow" -W ignore::DeprecationWarning  # raised by newer packages next to the oldest ones

fuzz: MINUTES ?= 5
fuzz: SEED ?= 0
fuzz: $(VENV)/.test
	$(BIN)/python tests/fuzz_files.py --minutes $(MINUTES) --seed $(SEED)

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYTHONPATH=bench/src $(BIN)/lint-imports
	PYTHONPATH=bench/src $(BIN)/python tools/check_docstrings.py
	$(BIN)/cffconvert --validate

docs: $(DOCS)/.docs
	rm -rf docs/api/generated $(SITE)  # or pages that are gone would stay
	$(DOCS)/bin/python -m sphinx --fail-on-warning --keep-going --quiet -d docs/_build/doctrees docs $(SITE)
	NAIM3L_SITE=$(SITE) $(DOCS)/bin/python -m pytest tests/docs tests/report -m docs

dist: $(VENV)/.dev
	rm -rf dist build bench/dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m build --outdir bench/dist bench
	$(BIN)/python tools/check_wheel.py dist/*.whl bench/dist/*.whl
	for package in dist/*.whl dist/*.tar.gz; do \
	    rm -rf build/empty && $(PYTHON) -m venv build/empty && \
	    build/empty/bin/python -m pip --disable-pip-version-check install --quiet \
	        $(PINS) "$$package" && \
	    (cd build && empty/bin/naim3l --version && empty/bin/naim3l demo --seeds 1) || exit 1; \
	done
	for package in bench/dist/*.whl bench/dist/*.tar.gz; do \
	    rm -rf build/empty && $(PYTHON) -m venv build/empty && \
	    build/empty/bin/python -m pip --disable-pip-version-check install --quiet \
	        $(PINS) dist/*.whl "$$package" && \
	    (cd build && empty/bin/naim3l-bench reproduce fig4 --out empty/results) || exit 1; \
	done

dist-extras: dist
	$(BIN)/python tools/check_extras.py dist/*.whl

bench: $(BENCH)/.test
	$(BENCH)/bin/python benchmarks/bench_metrics.py
	$(BENCH)/bin/python benchmarks/bench_solvers.py $(if $(DATA),--data $(DATA))
	$(BENCH)/bin/python benchmarks/bench_growth.py
	$(BENCH)/bin/python benchmarks/bench_subgradient.py
	$(BENCH)/bin/python benchmarks/bench_blas.py $(if $(DATA),--data $(DATA))
	$(BENCH)/bin/python benchmarks/bench_kernel.py $(if $(DATA),--data $(DATA))
	$(if $(DATA),$(BENCH)/bin/python benchmarks/corel5k.py $(DATA)/corel5k_lear4.npz)

clean:
	rm -rf $(VENV) $(EXTRAS) $(OLDEST) $(DOCS) $(BENCH) $(FLWR) docs/_build docs/gallery docs/api/generated docs/figures/drawn build dist bench/dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

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

# The default torch package may pull in gigabytes of CUDA libraries; for a CPU build, point pip to an
# index that has one.
$(EXTRAS)/.test: pyproject.toml bench/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/python $(INSTALL) $(PINS) --editable '.[test,torch,dask,places]' --editable './bench[test]'
	touch $@

# Flower limits the versions of some packages, which the others need not know.
$(FLWR)/.test: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(FLWR)
	grep -vE '^(typer|rich|packaging|protobuf)==' constraints.txt > $(FLWR)/pins.txt
	$(FLWR)/bin/python $(INSTALL) --constraint $(FLWR)/pins.txt --editable '.[test,flwr]'
	touch $@

$(BENCH)/.test: pyproject.toml bench/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python $(INSTALL) $(PINS) --editable . --editable './bench[test]'
	touch $@

# Figures of the research pages are drawn by the laboratory.
$(DOCS)/.docs: pyproject.toml bench/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(INSTALL) $(PINS) --editable '.[docs,test]' --editable ./bench
	touch $@

$(OLDEST)/.test: pyproject.toml tools/oldest.py
	$(PYTHON) -m venv $(OLDEST)
	$(PYTHON) tools/oldest.py > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python $(INSTALL) --constraint $(OLDEST)/oldest.txt --editable '.[test]'
	touch $@
