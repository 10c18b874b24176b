# From a bare checkout with Python 3.11, Rust 1.95 and a C compiler:
#   make serve   build, and run the gateway in the foreground
#   make test    build, and run every test
#   make check   what CI runs before the tests: formats, lints, types, layers
#   make bench   build optimised, and measure
#   make fuzz    run each fuzz target, SECONDS_EACH=60

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SECONDS_EACH ?= 60
# Further arguments: make serve ARGS="--port 0", make test ARGS="-k stub".
ARGS ?=

RUST_FILES := $(shell find rust -name target -prune -o \( -name '*.rs' -o -name Cargo.toml \) -print)
BUILT := $(VENV)/.built
DEPS := $(VENV)/.deps

.PHONY: venv build serve test test-rust test-python check format bench fuzz clean

venv: $(DEPS)

# The Python version is checked first: pip's own message about it comes late and is long.
$(DEPS): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if v >= (3, 11) else f"headrace needs Python 3.11 or later, and {sys.executable} is {v[0]}.{v[1]}; set PYTHON=")'
	@echo "installing what building and testing need into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --group dev
	@rm -f $(BUILT)
	@touch $@

build: $(BUILT)

$(BUILT): $(DEPS) Cargo.toml Cargo.lock $(RUST_FILES)
	@echo "building (a few minutes the first time)"
	@$(BIN)/maturin develop --quiet --profile daily >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	@touch $@

serve: $(BUILT)
	@exec $(BIN)/headrace serve $(ARGS)

test: test-rust test-python

test-rust:
	cargo test --workspace --quiet

test-python: $(BUILT)
	$(BIN)/python -m pytest $(ARGS)

check: $(BUILT)
	@$(BIN)/python tools/check.py

format: $(DEPS)
	cargo fmt
	$(BIN)/ruff format python tests tools
	$(BIN)/ruff check --fix --quiet python tests tools

bench: $(DEPS)
	@$(BIN)/maturin develop --quiet --release >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	@rm -f $(BUILT)
	$(BIN)/python -m benches $(ARGS)

fuzz:
	@SECONDS_EACH=$(SECONDS_EACH) $(PYTHON) tools/fuzz.py

clean:
	rm -rf $(VENV) target python/headrace/*.so
