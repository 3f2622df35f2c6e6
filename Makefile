# Two commands for a newcomer: `make chat` and `make test`. Each makes .venv and installs what it needs.
# PYTHON chooses the interpreter (3.11 or newer); TORCH_INDEX an index for PyTorch's wheels.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# On Linux without an NVIDIA driver, the default wheel brings gigabytes of CUDA libraries along: ask the CPU index first.
ifeq ($(shell uname -s)$(shell command -v nvidia-smi),Linux)
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
endif
TORCH := torch==2.13.0

.PHONY: chat test lint format clean

chat: $(VENV)/.chat
	@$(BIN)/outrider chat

test: $(VENV)/.dev
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV)

$(VENV)/.torch:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Outrider needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	@echo "Installing PyTorch (about 200 MB) into $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(if $(TORCH_INDEX),$(PIP) --retries 1 --timeout 10 --index-url $(TORCH_INDEX) --extra-index-url https://pypi.org/simple $(TORCH) 2>/dev/null ||) $(PIP) $(TORCH)
	@touch $@

$(VENV)/.chat: $(VENV)/.torch pyproject.toml
	@echo "Installing Outrider into $(VENV) ..."
	@$(PIP) --editable '.[server]'
	@touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml
	@echo "Installing Outrider and its development tools into $(VENV) ..."
	@$(PIP) --editable '.[dev]'
	@touch $@
