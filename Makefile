.DEFAULT_GOAL := help
.PHONY: help demo test check format lint types layers deps wheel torture clean

# The interpreter that .venv is made from. One that has torch >= 2.11 lends it to .venv.
PYTHON ?= python3
# Test files that run side by side; one thread of torch each. On two cores three are faster than two:
# many of them wait for a host. The longest are first (tests/conftest.py), so that none ends alone.
AT_ONCE ?= 3
BIN := .venv/bin
FILES := agentops journal reports trainer tests benchmarks

help:            ## List the targets.
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/'

demo: .venv/demo ## Run the main job end to end: a real trainer is found stuck, stopped, mended, relaunched.
	@$(BIN)/agentops demo $(ARGS)

test: .venv/dev  ## All tests that need no GPU. make test T=tests/pure/test_tidy.py
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "not gpu" -n $(AT_ONCE) --dist loadfile --no-loadscope-reorder $(T)

check: .venv/dev lint types layers deps ## Format, lint, types, layers: what CI runs first.

format: .venv/dev ## Rewrite the code as ruff would have it.
	$(BIN)/ruff format $(FILES) && $(BIN)/ruff check --fix $(FILES)

lint: .venv/dev
	$(BIN)/ruff format --check $(FILES) && $(BIN)/ruff check $(FILES)

types: .venv/dev
	$(BIN)/mypy $(FILES)

layers: .venv/dev ## Imports point down.
	$(BIN)/lint-imports

deps: .venv/dev  ## Every import is declared, every declaration used.
	$(BIN)/deptry agentops journal reports trainer

wheel: .venv/dev ## Build the wheel and run tests against it from another folder.
	.ci/wheel

torture: .venv/dev ## The long loops, whole; their output is committed in docs/torture.md.
	AGENTOPS_TORTURE=1 $(BIN)/pytest -m "not gpu" --timeout=7200 tests/torture -s

clean:           ## Forget .venv and caches.
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist

.venv/demo: pyproject.toml constraints.txt
	.ci/venv "$(PYTHON)" trainer && touch $@

.venv/dev: pyproject.toml constraints.txt
	.ci/venv "$(PYTHON)" dev && touch .venv/demo $@
