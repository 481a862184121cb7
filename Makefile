# The habits of this project: `make serve`, `make test`, `make check`, `make faults`, `make bench`.
# Everything happens in .venv, made here from the lock files and brought up to date only when those change.

PYTHON ?= python3
PORT ?= 8000
HOST ?= 127.0.0.1
MINUTES ?= 10
WORKERS ?= 0
export PORT HOST

python := .venv/bin/python
pip := $(python) -m pip --quiet --quiet --disable-pip-version-check --no-input
# Settings of a public site with made-up secrets, to be checked and not to be served.
production := AGENTSITE_ENV=production AGENTSITE_HOSTS=agentsite.example \
	AGENTSITE_SECRET_KEY=0123456789-abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ
compile := uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --quiet

.PHONY: help serve test check faults bench bench-scale bench-pool translations screenshots lock clean runtime development

help:
	@sed -n 's/^\([a-z-]*\):.*## /make \1\t/p' Makefile | expand -t 17

serve: runtime ## the whole site on http://127.0.0.1:8000; HOST and PORT change the address
	@exec $(python) manage.py serve

test: development ## the whole suite, on SQLite and on PostgreSQL
	@exec $(python) -m tests.run

check: export AGENTSITE_DATA := $(CURDIR)/.venv/check
check: development ## style, types, migrations, deployment settings, API description
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy agentsite runs gateway tests
	$(python) manage.py makemigrations --check --dry-run
	$(production) $(python) manage.py check --deploy --fail-level WARNING
	$(python) manage.py spectacular --validate --fail-on-warn --file /dev/null

faults: development ## fault after fault on a fleet of processes, for MINUTES (10), then a tally
	@exec $(python) -m tests.faults.scale --minutes $(MINUTES)

bench: development ## how fast it is, beside a direct client; WORKERS=2 for many processes
	@exec $(python) -m tests.bench --workers $(WORKERS)

bench-scale: development ## what many processes carry: two workers, 200 runs, 500 watchers, 1,000 open conversations
	@exec $(python) -m tests.bench.scale

bench-pool: development ## the second message of a conversation, with the agent pool and without
	@exec $(python) -m tests.bench.pool

translations: development ## put new sentences into the catalogues under locale/ and compile them
	@exec $(python) -m tests.translations

screenshots: development ## take the pictures under docs/images anew
	@exec $(python) -m tests.browser.screenshots

lock: development ## choose newer packages within the bounds of pyproject.toml
	PATH=$(CURDIR)/.venv/bin:$$PATH $(compile) --upgrade pyproject.toml -o requirements.txt
	PATH=$(CURDIR)/.venv/bin:$$PATH $(compile) --upgrade --extra dev -c requirements.txt pyproject.toml -o requirements-dev.txt

clean: ## remove the environment and all caches; data in var/ stays
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

runtime: .venv/bin/python
	@cmp -s requirements.txt .venv/requirements.txt || { \
		echo "Installing the packages …" && \
		$(pip) install --require-hashes -r requirements.txt && \
		cp requirements.txt .venv/requirements.txt; }

# The development lock holds everything of the other one, in the same versions.
development: .venv/bin/python
	@cmp -s requirements-dev.txt .venv/requirements-dev.txt || { \
		echo "Installing the packages for development …" && \
		$(pip) install --require-hashes -r requirements-dev.txt && \
		cp requirements-dev.txt requirements.txt .venv/; }

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed; PYTHON=/path/to/python3 names another one." >&2; exit 1; }
	@$(PYTHON) -m venv .venv
