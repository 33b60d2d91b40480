PYTHON ?= python3
PORT ?= 8000
VENV := .venv
# uv installs faster where it is present; pip does the same from the same constraints.
INSTALL := $(if $(shell command -v uv 2>/dev/null),uv pip install --python $(VENV)/bin/python,$(VENV)/bin/pip install)

.PHONY: serve test lint models benchmark clean

serve: $(VENV)/serve.stamp  ## Set everything up and serve the embedded models on PORT
	$(VENV)/bin/cocoa serve --port $(PORT)

test: $(VENV)/dev.stamp lint  ## Set everything up and pass the whole suite
	$(VENV)/bin/pytest

lint: $(VENV)/dev.stamp
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/codespell
	$(VENV)/bin/deptry .

models: $(VENV)/dev.stamp  ## Make the embedded models anew (more than an hour on two cores)
	$(VENV)/bin/python -m models.embedded.build all

benchmark: $(VENV)/dev.stamp
	$(VENV)/bin/python benchmarks/latency.py
	$(VENV)/bin/python benchmarks/memory.py
	$(VENV)/bin/python benchmarks/cache.py

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/serve.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --quiet -c constraints.txt -e '.[models]'
	touch $@

$(VENV)/dev.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) --quiet -c constraints.txt -e '.[models,dev]'
	touch $@ $(VENV)/serve.stamp
