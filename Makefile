# Two commands for a newcomer: `make chat` and `make test`. Each makes .venv and installs what it needs.
# PYTHON chooses the interpreter (3.11 or newer), WORKERS how many tests run side by side.

PYTHON ?= python3
WORKERS ?= $(shell nproc 2>/dev/null || sysctl -n hw.ncpu)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# On Linux without an NVIDIA driver the build for CPUs will do; the default one brings gigabytes of CUDA libraries.
TORCH := torch==2.13.0
ifeq ($(shell uname -s)$(shell command -v nvidia-smi),Linux)
INSTALL_TORCH := $(PIP) $(TORCH)+cpu 2>/dev/null || $(PIP) --requirement requirements-cpu.txt
else
INSTALL_TORCH := $(PIP) $(TORCH)
endif

# One file's tests stay on one worker, in their order; what takes longest starts first (tests/conftest.py).
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: chat test test-rest test-all lint format release clean

chat: $(VENV)/.chat
	@$(BIN)/outrider chat

# What is quick, of every package.
test: $(VENV)/.dev
	$(PYTEST) -m "not faults and not pty and not training and not bundled and not benchmarks"

# What `make test` leaves out.
test-rest: $(VENV)/.dev
	$(PYTEST) -m "faults or pty or training or bundled or benchmarks"

# Everything.
test-all: $(VENV)/.dev
	$(PYTEST)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Checks a release, builds it and tries what was built; needs no network and uploads nothing (CONTRIBUTING.md).
release: $(VENV)/.dev
	$(BIN)/python -m tools.release

clean:
	rm -rf $(VENV)

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Outrider needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# The bundled model needs no PyTorch.
$(VENV)/.chat: $(VENV)/.python pyproject.toml
	@echo "Installing Outrider into $(VENV) ..."
	@$(PIP) --editable .
	@touch $@

$(VENV)/.torch: $(VENV)/.python
	@echo "Installing PyTorch (about 200 MB) into $(VENV) ..."
	@$(INSTALL_TORCH)
	@touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	@echo "Installing Outrider and its development tools into $(VENV) ..."
	@$(PIP) --editable '.[dev]'
	@touch $@
