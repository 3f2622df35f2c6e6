# Two commands for a newcomer: `make chat` and `make test`. Each makes .venv and installs what it needs.
# PYTHON chooses the interpreter (3.11 or newer), WORKERS how many tests run side by side: half as many again as there
# are processors, for a third of a test's time is waiting (for a screen to settle, for a process to start).

PYTHON ?= python3
WORKERS ?= $(shell echo $$(( ($$(nproc 2>/dev/null || sysctl -n hw.ncpu) * 3 + 1) / 2 )))
VENV ?= .venv
BIN := $(VENV)/bin
# The releases that everything was tested with (CONTRIBUTING.md). Without it, pip takes the newest ones.
CONSTRAINTS ?= constraints.txt
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)

# pip compiles what it installs on one processor, which takes half a minute. All of them do it here, and compile PyTorch
# while pip looks for the rest. (Compiled by the tests themselves, a package's sloppy escape would be an error.)
PIP_ALONE := $(PIP) --no-compile
COMPILE := $(BIN)/python -W ignore -m compileall -qq -j 0 $(VENV)/lib
# Python keeps what it compiled: the tests start hundreds of processes, which would compile it all again.
unexport PYTHONDONTWRITEBYTECODE

# On Linux without an NVIDIA driver the build for CPUs will do; the default one brings gigabytes of CUDA libraries.
TORCH := $(shell sed -n '/^torch==/p' constraints.txt)
ifeq ($(shell uname -s)$(shell command -v nvidia-smi),Linux)
INSTALL_TORCH := $(PIP_ALONE) $(TORCH)+cpu 2>/dev/null || $(PIP_ALONE) --requirement requirements-cpu.txt
else
INSTALL_TORCH := $(PIP_ALONE) $(TORCH)
endif

# One file's tests stay on one worker, in their order; what takes longest starts first (tests/conftest.py).
PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: chat test test-all test-latest constraints lint style types format release clean

chat: $(VENV)/.chat
	@$(BIN)/outrider chat

# What is quick, of every package. With AFFECTED=1 also slow tests, if something that they use has changed since the
# commit in .ci/passed (tools/affected.py).
test: $(VENV)/.dev
ifdef AFFECTED
	left_out=$$($(BIN)/python -m tools.affected) && $(PYTEST) $$left_out
else
	$(PYTEST) -m "not faults and not pty and not training and not bundled and not benchmarks"
endif

# Everything. A commit that passes is noted in .ci/passed.
test-all: $(VENV)/.dev
	$(PYTEST)
	test -n "$$(git status --porcelain)" || git rev-parse HEAD > .ci/passed

# Everything, with the newest release of each dependency; says which one broke something.
test-latest:
	rm -rf .venv-latest
	$(MAKE) VENV=.venv-latest CONSTRAINTS=/dev/null .venv-latest/.dev
	.venv-latest/bin/python -m tools.newest $(NEWEST)

# The same, and then constraints.txt has the releases that broke nothing.
constraints:
	$(MAKE) test-latest NEWEST=--write

lint: style types

style: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell

types: $(VENV)/.dev
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Checks a release, builds it and tries what was built; needs no network and uploads nothing (CONTRIBUTING.md).
release: $(VENV)/.dev
	$(BIN)/python -m tools.release

clean:
	rm -rf $(VENV) .venv-latest

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Outrider needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# The bundled model needs no PyTorch.
$(VENV)/.chat: $(VENV)/.python pyproject.toml constraints.txt
	@echo "Installing Outrider into $(VENV) ..."
	@$(PIP) --editable .
	@touch $@

$(VENV)/.torch: $(VENV)/.python constraints.txt
	@echo "Installing PyTorch (about 200 MB) into $(VENV) ..."
	@$(INSTALL_TORCH)
	@$(COMPILE) &
	@touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml constraints.txt
	@echo "Installing Outrider and its development tools into $(VENV) ..."
	@$(PIP_ALONE) --editable '.[dev]'
	@$(COMPILE) || true
	@touch $@
