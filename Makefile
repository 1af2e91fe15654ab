# Everything runs in .venv, which the first target creates. PYTHON=python3.12 picks another interpreter.
PYTHON ?= python3
# The pair that `make lock` resolves for: each torch release names its Triton, CPU builds of torch do not.
TORCH ?= 2.13.0
TRITON ?= 3.7.1
# One worker a core; `make test PYTEST_ARGS="-x tests/engine"` runs a part in one process.
PYTEST_ARGS ?= -n auto

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
VENV_STAMP := $(VENV)/.created
RUNTIME_STAMP := $(VENV)/.runtime
DEV_STAMP := $(VENV)/.dev
DEMO_REPORT := reports/demo.html
LOCK_VENV := build/lock-venv

.DEFAULT_GOAL := help
.PHONY: help demo test gpu lint format types lock clean

help:
	@echo "make demo    compare eager, torch.compile and a hand-written kernel; writes $(DEMO_REPORT)"
	@echo "make test    the test suite (no GPU needed)"
	@echo "make gpu     the tests that need a GPU"
	@echo "make lint    ruff check and ruff format --check"
	@echo "make format  let ruff repair and format"
	@echo "make types   pyright, strict"
	@echo "make lock    resolve requirements.lock and requirements-dev.lock anew (TORCH=$(TORCH) TRITON=$(TRITON))"
	@echo "make clean   remove .venv, build and report folders"

demo: $(RUNTIME_STAMP)
	@mkdir -p $(dir $(DEMO_REPORT))
	$(BIN)/tilesight compare lessons/04c_triton_fused_add_relu.py:CASE --html $(DEMO_REPORT)
	@echo "The report is $(CURDIR)/$(DEMO_REPORT)"

test: $(DEV_STAMP)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

gpu: $(DEV_STAMP)
	$(BIN)/python -m pytest -o addopts=--import-mode=importlib tests/gpu

lint: $(DEV_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(DEV_STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(DEV_STAMP)
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(BIN)/pyright

$(VENV_STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than Python 3.11; call make PYTHON=python3.11 (or newer)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(RUNTIME_STAMP): $(VENV_STAMP) requirements.lock pyproject.toml
	$(PIP) install --quiet -r requirements.lock
	$(PIP) install --quiet --no-build-isolation --no-deps -e .
	@touch $@

$(DEV_STAMP): $(RUNTIME_STAMP) requirements-dev.lock
	$(PIP) install --quiet -r requirements-dev.lock
	@touch $@

# Pins without build suffixes and without the CUDA packages that torch itself pins, so that the
# files install on machines with and without a GPU.
lock:
	rm -rf $(LOCK_VENV)
	$(PYTHON) -m venv $(LOCK_VENV)
	$(LOCK_VENV)/bin/python -m pip install --quiet torch==$(TORCH) triton==$(TRITON) .
	$(call freeze,Runtime: what make demo installs.) > requirements.lock
	$(LOCK_VENV)/bin/python -m pip install --quiet torch==$(TORCH) triton==$(TRITON) '.[dev]'
	$(call freeze,Runtime and the tools of the work itself: what make test installs.) > requirements-dev.lock
	rm -rf $(LOCK_VENV)

define freeze
{ echo "# $(1) Written by make lock."; \
  $(LOCK_VENV)/bin/python -m pip freeze --all --exclude pip --exclude tilesight \
  | grep -viE '^(nvidia|cuda)-' \
  | sed -E -e 's/\+[A-Za-z0-9.]+$$//' -e '/^triton==/s/$$/ ; sys_platform == "linux"/'; }
endef

clean:
	rm -rf $(VENV) build dist reports .pytest_cache .ruff_cache .hypothesis
