# The front door. `make up` and `make test` do the whole set-up themselves.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := venv
.PHONY: venv dev up test check docs test-real test-gpu bench lock clean

venv: .venv/.installed          ## .venv with the gpuaas command
dev: .venv/.installed-dev       ## ... and what tests and checks need

.venv/.installed: pyproject.toml requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@if command -v nvidia-smi >/dev/null 2>&1 || [ -e /proc/driver/nvidia/version ]; then \
	  $(BIN)/python -m pip install -q --disable-pip-version-check $$(grep '^nvidia-ml-py==' requirements-dev.lock); fi
	@$(BIN)/python -m compileall -q src/gpuaas
	@touch $@

.venv/.installed-dev: .venv/.installed requirements-dev.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-dev.lock
	@touch $@

up: venv                        ## the control plane, in the foreground
	@$(BIN)/gpuaas up

# Decisions and pages without a server: what to run after every edit. `make test FAST=1`
FAST_TESTS := $(addprefix tests/unit/,base client devices engine kueue nodefit observe placement profiles runtime views web)

test: dev                       ## every test that needs no cluster; FAST=1: those of a minute
	@$(BIN)/python -m pytest -q -m "not real" $(if $(FAST),$(FAST_TESTS))

check: dev                      ## style, types, import contracts, words
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports && $(BIN)/python -m docs_build.style

docs: dev                       ## the reference pages, from the code
	@$(BIN)/python -m docs_build

test-real: dev                  ## the same scripts against the real Kubernetes and against ours (needs Go)
	@$(BIN)/python -m tests.real build && $(BIN)/python -m pytest -q tests/real

test-gpu:                       ## the story of shared cards on a machine with one: make test-gpu WHEELS=folder [OUT=folder]
	@bash tests/gpu/run.sh "$(WHEELS)" "$(or $(OUT),gpu-story)"

bench: dev                      ## figures and ratios
	@$(BIN)/python -m bench

lock: dev                       ## resolve the dependencies anew
	@$(BIN)/python -m pip install -q uv
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --upgrade pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-header --upgrade -c requirements.lock pyproject.toml --group dev -o requirements-dev.lock

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache
