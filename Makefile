# Everything that a checkout can do. Needs Go, Python 3.11 or newer (with venv), and make; the rest is installed below .local.

PYTHON ?= python3
SHARED_DIR ?= ../shared
# Absolute: tests run in folders of their own.
override SHARED_DIR := $(abspath $(SHARED_DIR))
export SHARED_DIR

# The stack that run, install-tool and stop act on.
NAME ?= default
PORT ?=
STACK := $(PYTHON) infra/local/stack.py
STACK_OPTIONS := --name $(NAME) $(if $(PORT),--port $(PORT))
SUITE := $(PYTHON) infra/local/suite.py
VENV := $(PYTHON) infra/local/toolchain.py

# The name of the CloudFormation stack that admin and secret act on.
AWS_STACK ?= toolrounds

# Files of the contract suite that hold.
CONTRACT := test_auth.py test_discovery.py test_tools.py test_tools_specs.py test_valves.py test_results.py test_context.py test_chats.py \
	test_path_a.py test_legacy.py test_raw.py

# Those that need servers of other makers.
SERVERS := test_servers.py test_terminals.py

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
PYTEST := -m pytest -q -p no:cacheprovider

# What `make test` runs, in this order; all of it, also when one part fails.
TESTS := check test-go test-python test-field test-contract test-socket test-browser test-servers test-faults test-iam test-image

.DEFAULT_GOAL := help
.PHONY: help run up ask stop clean clean-all test check $(TESTS) bench test-image tool install-tool admin secret edge build lock

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: ## the whole application on http://localhost:3000, until Ctrl-C
	@$(STACK) run $(STACK_OPTIONS)

up: ## the same in the background
	@$(STACK) up $(STACK_OPTIONS)

# For example: make ask PROMPT='What is 12 * 34?'
ask: ## one completion with the sample tool, from another shell (PROMPT=)
	@test -n "$(PROMPT)" || { echo "make ask PROMPT='What is 12 * 34?'"; exit 1; }
	@$(PYTHON) infra/local/ask.py --name $(NAME) "$(PROMPT)"

stop: ## end what up started; the data stays
	@$(STACK) down $(STACK_OPTIONS)

clean: ## end it and remove its data
	@$(STACK) clean $(STACK_OPTIONS)

clean-all: clean ## remove builds and virtual environments, too
	@$(STACK) clean --name test
	rm -rf .local .aws-sam

test: ## all tests, a summary at the end
	@passed=0; failed=0; summary=; \
	for part in $(TESTS); do \
	  printf '\n=== %s\n' $$part; begin=$$(date +%s); \
	  if $(MAKE) --no-print-directory $$part; then result=passed; passed=$$((passed + 1)); \
	  else result=FAILED; failed=$$((failed + 1)); fi; \
	  summary="$$summary$$(printf '%-7s %-15s %4d s' $$result $$part $$(($$(date +%s) - begin)))\n"; \
	done; \
	printf "\n=== summary\n$$summary"; \
	echo "$$passed passed, $$failed failed"; \
	test $$failed -eq 0

check: ## format, vet, lint, and the template
	@bad=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$bad" || { echo "gofmt: $$bad"; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	$$($(VENV) checks)/ruff check infra tests functions/toolbox
	$$($(VENV) checks)/ruff format --check infra
	SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 $$($(VENV) sam)/sam validate --lint
	SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 $$($(VENV) sam)/sam validate --lint -t infra/edge.yaml
	AWS_DEFAULT_REGION=us-east-1 $$($(VENV) sam)/python infra/cycles.py

test-go: ## unit tests with the race detector
	go test -race $$(go list ./... | grep -v /tests/)

TOOLBOX := .local/venvs/toolbox

$(TOOLBOX)/made: functions/toolbox/requirements.txt functions/toolbox/requirements-dev.txt
	rm -rf $(TOOLBOX)
	$(PYTHON) -m venv $(TOOLBOX)
	$(TOOLBOX)/bin/pip install -q --disable-pip-version-check $(patsubst %,-r %,$^)
	touch $@

test-python: $(TOOLBOX)/made ## tests of the tool container
	cd functions/toolbox && $(CURDIR)/$(TOOLBOX)/bin/python $(PYTEST) tests

test-image: $(TOOLBOX)/made ## the tool container's image, and functions under sam local invoke (root, or a container engine)
	@# Once more if it fails: it installs an engine and an image's packages over the network.
	$(PYTHON) tests/image/run.py || $(PYTHON) tests/image/run.py

test-field: $(TOOLBOX)/made ## cases from public bug reports
	TOOLBOX_PYTHON=$(CURDIR)/$(TOOLBOX)/bin/python go test -count=1 ./tests/field/...

test-contract: ## the contract of Open WebUI, against a stack of its own
	$(SUITE) --fresh -- $$($(VENV) checks)/python $(PYTEST) -rfE $(CONTRACT:%=$(SHARED_DIR)/contract/%) tests/stack

# A short limit, so that the suite can wait for it.
test-socket: ## sockets: the contract of Open WebUI over Socket.IO, the plain protocol, server-sent events
	WEBSOCKET_EVENT_CALLER_TIMEOUT=6 EVENT_CALL_TIMEOUT=6 ADMIN_EMAIL=admin@example.com ADMIN_PASSWORD=password123 \
	  $(SUITE) --name socket -- sh -c 'python=$$($(VENV) checks)/python; \
	  $$python $(PYTEST) -rfE --deselect test_stream.py::test_calls_of_one_round_run_one_after_another $(SHARED_DIR)/contract/socket && \
	  $$python $(PYTEST) -rfE tests/socket'

CHROMIUM ?= /usr/bin/chromium
export CHROMIUM

test-browser: ## the console in Chromium, and the stock Socket.IO client; needs node and CHROMIUM=
	cd tests/browser && npm ci --no-audit --no-fund --silent
	ADMIN_EMAIL=admin@example.com ADMIN_PASSWORD=password123 $(SUITE) --name browser -- npm --prefix tests/browser test --silent

# Skipped is failed here (strict.py): the contract's fixtures skip what does not start. A short limit, so that silent servers can be waited for.
test-servers: ## tools of other servers: the contract's FastAPI, MCP and open-terminal servers, real peers, hostile ones
	servers=$$($(VENV) servers) && CONTRACT_PYTHON=$$servers/python OPEN_TERMINAL=$$servers/open-terminal PYTHONPATH=tests/servers TOOL_SECONDS=12 \
	  $(SUITE) --name servers -- sh -c 'python=$$($(VENV) checks)/python; \
	  $$python $(PYTEST) -rfEs -p strict $(SERVERS:%=$(SHARED_DIR)/contract/%) && \
	  $$python $(PYTEST) -rfEs -p strict tests/servers'

test-iam: ## the same with the roles of the functions enforced
	$(SUITE) --iam -- $$($(VENV) checks)/python $(PYTEST) -rfE $(CONTRACT:%=$(SHARED_DIR)/contract/%)

test-faults: ## runs whose processes are killed at each step
	$(SUITE) -- go test -count=1 -timeout 20m ./tests/faults/...

# For example: make bench BENCH='path_a.py --rounds 3 --concurrency 8'
BENCH ?= path_a.py --rounds 3 --concurrency 8

bench: ## figures of a stack of its own (BENCH='path_a.py --concurrency 32')
	$(SUITE) --name bench -- sh -c '$(PYTHON) $(SHARED_DIR)/bench/$(BENCH) --base-url $$BASE_URL --key $$ADMIN_KEY'

build: ## sam build for AWS (arm64)
	CGO_ENABLED=0 GOFLAGS="-trimpath -tags=lambda.norpc '-ldflags=-s -w'" $$($(VENV) sam)/sam build --parallel
	@# Byte code for the template's runtime travels along: Lambda's file system takes none at a cold start.
	python3.12 -m compileall -q --invalidation-mode unchecked-hash .aws-sam/build/Toolbox

# For example: make tool FILE=mytool.py FUNCTION=echo ARGUMENTS='{"text": "hi"}'
tool: $(TOOLBOX)/made ## what the service makes of FILE=mytool.py: specs, valves, what is missing (FUNCTION= ARGUMENTS= runs one)
	@test -n "$(FILE)" || { echo "make tool FILE=path/to/tool.py"; exit 1; }
	@PYTHONPATH=functions/toolbox/src $(TOOLBOX)/bin/python -m toolbox.cli "$(FILE)" $(if $(FUNCTION),"$(FUNCTION)" $(if $(ARGUMENTS),'$(ARGUMENTS)'))

install-tool: ## install FILE=tool.py in the running local stack (or at BASE_URL with API_KEY)
	@test -n "$(FILE)" || { echo "make install-tool FILE=path/to/tool.py"; exit 1; }
	@if [ -z "$$BASE_URL" ]; then told=$$($(STACK) env $(STACK_OPTIONS)) && eval "$$told"; export BASE_URL API_KEY; fi; \
	$(PYTHON) infra/manage.py tool "$(FILE)"

admin: ## on AWS: create the first administrator EMAIL=
	@test -n "$(EMAIL)" || { echo "make admin EMAIL=you@example.com"; exit 1; }
	@$$($(VENV) sam)/python infra/manage.py --stack $(AWS_STACK) admin "$(EMAIL)"

secret: ## on AWS: store the model provider's API key
	@$$($(VENV) sam)/python infra/manage.py --stack $(AWS_STACK) secret

edge: ## on AWS: one address for HTTP and websockets in front of it all (EDGE='DomainName=… CertificateArn=…')
	@sam=$$($(VENV) sam); told=$$($$sam/python infra/manage.py --stack $(AWS_STACK) edge) && \
	  $$sam/sam deploy -t infra/edge.yaml --stack-name $(AWS_STACK)-edge --resolve-s3 --parameter-overrides $$told $(EDGE)

lock: ## write the lock files of infra/local anew
	@for name in ministack sam checks servers; do \
	  uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-emit-find-links \
	    -q infra/local/$$name.in -o infra/local/$$name.txt || exit 1; \
	done
