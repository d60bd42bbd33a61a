# `make lab` to learn, `make test` to verify; `make help` lists the rest. Each installs what it needs into $(VENV).

PYTHON ?= python3
VENV ?= .venv
# The exact versions that were verified; empty means the newest that pyproject.toml allows. They need Python 3.11.
CONSTRAINTS ?= $(shell $(PYTHON) -c 'import sys; print("constraints.txt" if sys.version_info >= (3, 11) else "")')
TORCH ?= torch torchvision
JOBS ?= 2
LAB_ARGS ?=
PYTEST_ARGS ?=
SITE_URL ?=

BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check $(if $(CONSTRAINTS),-c $(CONSTRAINTS))
# Several processes with one thread each are faster than several that compete for the same cores.
ONE_THREAD := OMP_NUM_THREADS=1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install dev lab test quick build site lessons lessons-shipped lessons-solved lint format clean

help:
	@echo "make lab      install into $(VENV), open your copies of the lessons in JupyterLab"
	@echo "make test     install what tests need, then verify everything"
	@echo "make quick    lint, the fast tests, the lessons that changed (about three minutes)"
	@echo "make build    build notebooks/ from lessons/ (only what changed)"
	@echo "make site     build the lessons, the faults and the claims as static pages into build/site"
	@echo "make lessons  run every lesson as shipped and solved; reports in reports/"
	@echo "make lint     ruff and the import contract;  make format  mends what ruff can"
	@echo "make clean    remove caches, reports and build products (not $(VENV))"
	@echo "Variables: PYTHON=$(PYTHON) VENV=$(VENV) JOBS=$(JOBS) TORCH='$(TORCH)' CONSTRAINTS=$(CONSTRAINTS) LAB_ARGS PYTEST_ARGS SITE_URL"

$(BIN)/python:
	@echo "== making $(VENV) with $(PYTHON)"
	$(PYTHON) -m venv $(VENV)

# torch first and alone: it is most of the download, and what follows finds it installed.
$(VENV)/.torch: constraints.txt | $(BIN)/python
	@echo "== installing $(TORCH): several gigabytes where it is the CUDA build, so minutes on the first run"
	$(PIP_INSTALL) $(TORCH)
	@touch $@

$(VENV)/.course: pyproject.toml $(VENV)/.torch
	@echo "== installing the course"
	$(PIP_INSTALL) -e ".[deploy]"
	@touch $@

$(VENV)/.site: pyproject.toml $(VENV)/.torch
	@echo "== installing the course and what the site needs"
	$(PIP_INSTALL) -e ".[deploy,site]"
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.torch
	@echo "== installing the course and what tests need"
	$(PIP_INSTALL) -e ".[deploy,grade,site,dev]"
	@touch $@ $(VENV)/.course $(VENV)/.site

install: $(VENV)/.course

dev: $(VENV)/.dev

lab: install
	@echo "== opening JupyterLab on your copies of the notebooks (Ctrl-C ends it)"
	$(BIN)/python -m course lab $(LAB_ARGS)

lint: dev
	@echo "== ruff, import contract"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

build: dev
	$(BIN)/python -m course build

site: $(VENV)/.site
	@echo "== building the site; it is in build/site/index.html"
	$(ONE_THREAD) $(BIN)/python -m course.publishing.site build/site $(if $(SITE_URL),--base-url $(SITE_URL))

lessons: lessons-shipped lessons-solved

lessons-shipped: install
	@echo "== lessons as shipped"
	$(ONE_THREAD) $(BIN)/python -m course run --jobs $(JOBS) --output reports/shipped

lessons-solved: install
	@echo "== lessons solved"
	$(ONE_THREAD) $(BIN)/python -m course run --solved --jobs $(JOBS) --output reports/solved

test: lint
	@echo "== notebooks are what their sources say"
	$(BIN)/python -m course build --check
	@echo "== tests"
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --junitxml=reports/pytest.xml $(PYTEST_ARGS)

# Lessons whose source differs from the last commit.
CHANGED = $(sort $(patsubst lessons/%.py,%,$(shell git status --porcelain --no-renames -- 'lessons/*.py' | sed -n '/^ *D/!s/^...//p')))

quick: lint
	@echo "== tests that are not marked slow, last failures first"
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder -m "not slow" --failed-first $(PYTEST_ARGS)
	@echo "== changed lessons: $(or $(CHANGED),none)"
	$(if $(CHANGED),$(BIN)/python -m course build $(CHANGED))
	$(if $(CHANGED),$(ONE_THREAD) $(BIN)/python -m course run --jobs $(JOBS) --output reports/quick $(CHANGED))

clean:
	rm -rf build dist report reports mutants .pytest_cache .ruff_cache .import_linter_cache
	find . -path ./$(VENV) -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -prune -exec rm -rf {} +
