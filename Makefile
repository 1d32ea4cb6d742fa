# The two commands are `make book` and `make test`; `make` alone lists them all. GNU make 3.81 and BSD tools suffice.

PRESET  ?= smoke
CHAPTER ?= all
JOBS    ?= 2

BIN      := .venv/bin
READY    := .venv/.ready
LEFT_OUT := _build/left-out.txt
SITE     := $(BIN)/jupyter-book build . -W -n --keep-going -q
PYTEST   := $(BIN)/python -m pytest -q -n $(JOBS)

# Set PYTHON to use another interpreter for the virtual environment.
CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.13 python3.12 python3.11)
FITS       := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

MAKEFLAGS     += --no-print-directory
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help install book run html lab test lint unit notebooks site fix bench store lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

$(READY): pyproject.toml requirements.lock
	@found=; for python in $(CANDIDATES); do \
	    if $$python -c '$(FITS)' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "make: needs Python 3.11, 3.12 or 3.13; none of these is one: $(CANDIDATES). Try make PYTHON=/path/to/python3.12" >&2; \
	    exit 1; \
	fi; \
	echo "making .venv with $$($$found --version)"; \
	$$found -m venv .venv
	PIP_CONSTRAINT=requirements.lock PIP_BUILD_CONSTRAINT=requirements.lock PIP_DISABLE_PIP_VERSION_CHECK=1 \
	    $(BIN)/python -m pip install --quiet -e '.[book,cluster,site,oracles,test]'
	@touch $@

install: $(READY) ## make .venv from requirements.lock (every other target does so by itself)

book: ## execute the chapters (CHAPTER=all PRESET=smoke) and build the site
	@$(MAKE) run html

run: $(READY) ## execute the chapters only
	$(BIN)/nips26 run $(if $(filter all,$(CHAPTER)),--all,$(CHAPTER)) --preset $(PRESET)

html: $(READY) ## build the site from the stored outputs
	$(SITE)
	@echo "html: the site is at file://$(CURDIR)/_build/html/index.html"

lab: $(READY) ## open the book in JupyterLab
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/book

test: $(READY) ## check everything that CI checks (JOBS=2 processes)
	@mkdir -p _build; rm -f $(LEFT_OUT)
	@status=0; NIPS26_LEFT_OUT="$(CURDIR)/$(LEFT_OUT)" $(MAKE) lint unit notebooks site || status=$$?; \
	if [ -s $(LEFT_OUT) ]; then echo "test: left out on this machine:"; cat $(LEFT_OUT); fi; \
	if [ $$status -eq 0 ]; then echo "test: passed"; else echo "test: FAILED"; fi; \
	exit $$status

lint: $(READY) ## ... its first stage: style, types, directions of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo
	@echo "lint: passed"

unit: $(READY) ## ... its second: the library, the runs, the contract of the chapters
	$(PYTEST) --dist loadfile --ignore=tests/site
	@echo "unit: passed"

notebooks: $(READY) ## ... its third: every cell of every chapter runs at smoke
	NIPS26_PRESET=smoke NIPS26_STATIC=1 $(PYTEST) -p tests.book.nbval_report --dist loadfile --no-loadscope-reorder \
	    --nbval-lax --nbval-current-env --nbval-cell-timeout 300 book
	@echo "notebooks: passed"

site: $(READY) ## ... its last: the site builds without a warning and holds up in a browser
	rm -rf _build/html _build/.doctrees
	@$(MAKE) html
	$(PYTEST) --dist loadgroup tests/site
	@echo "site: passed"

fix: $(READY) ## put the style right where ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## run the benchmarks
	$(BIN)/python -m pytest benchmarks/bench_*.py -q --benchmark-only

store: $(READY) ## execute a chapter at laptop and store its outputs (CHAPTER=zerosum)
	$(if $(filter all,$(CHAPTER)),$(error store takes one chapter: make store CHAPTER=zerosum))
	$(BIN)/nips26 store $(CHAPTER)

lock: ## refresh requirements.lock from pyproject.toml
	@command -v uv >/dev/null || { python3 -m venv .venv-lock && .venv-lock/bin/pip install --quiet uv; }
	PATH="$(CURDIR)/.venv-lock/bin:$$PATH" python3 scripts/lock.py

clean: ## remove everything that was built, and .venv; runs/ stays
	rm -rf .venv .venv-lock _build .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache
