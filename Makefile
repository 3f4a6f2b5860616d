# Two commands: `make run` to talk to the server (`make run PORT=8081` at another port), and
# `make test` to check it.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PORT   ?= 8080

.PHONY: run test check unit core-coverage conformance phonecall bench clean

run: $(VENV)/base
	$(BIN)/voice models pull
	@# Ctrl-C is how a server is ended, and no error.
	@trap : INT; $(BIN)/voice serve --port $(PORT) || test $$? -eq 130

test: check unit core-coverage

# What can be said about the code without running it.
check: $(VENV)/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# All tests: models on real speech and the page in a browser among them.
unit: $(VENV)/dev
	$(BIN)/voice models pull
	$(BIN)/pytest --cov --cov-report=term:skip-covered --cov-fail-under=90

# Each module of the pure core is covered whole, every branch, by its own test file.
core-coverage: $(VENV)/dev
	$(BIN)/python -m tests.core_coverage

# The stock clients of the Realtime API as they are published, each in an environment of its own,
# against a server of ours. The first time, it installs 1 GB.
conformance: $(VENV)/dev
	$(BIN)/voice models pull
	$(BIN)/python -m tests.conformance

# Calls through a real Asterisk, each way that audio can go, placed by baresip and sipp. As root;
# the first time, it builds a Debian of 400 MB.
phonecall: $(VENV)/dev
	$(BIN)/voice models pull
	$(BIN)/python -m tests.phonecall

# The figures of docs/benchmarks.md; see there for what else they take.
bench: $(VENV)/dev
	$(BIN)/python -m loadtest.server_bench
	$(BIN)/voice load -n 1 --barge-ins 0 --max-tokens 40 --silence-ms 500
	$(BIN)/voice load -n 1 --barge-ins 0 --max-tokens 40 --silence-ms 200
	$(BIN)/voice load -n 4 --barge-ins 0 --max-tokens 40 --silence-ms 200

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/base: pyproject.toml
	@echo "installing into $(VENV) (about 540 MB on disk)…"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --editable .
	touch $@

$(VENV)/dev: pyproject.toml
	@echo "installing into $(VENV), with what the tests need…"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --editable '.[dev]'
	@# pyannote.audio wants torchaudio, whose native part is for CUDA and does not load beside a
	@# torch for CPUs. What is needed of it is Python alone, and works without that part.
	$(BIN)/python -c 'import torchaudio' 2>/dev/null || \
		rm -f $(VENV)/lib/python*/site-packages/torchaudio/lib/*.so
	touch $@ $(VENV)/base
