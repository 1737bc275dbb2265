# Copyright The metacidr Authors.
# SPDX-License-Identifier: Apache-2.0

# Needs Go, make and bash. Writes to bin/, .cache/ and Go's own caches.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

export GOWORK := off
export STATICCHECK_CACHE := $(CURDIR)/.cache/staticcheck

# The one list of modules: every folder with a go.mod. "." is the library.
MODULES := $(shell find . -path './.*' -prune -o -name go.mod -exec dirname {} \; | sort)
# tools has no packages, only the versions of the tools.
CODE    := $(filter-out ./tools,$(MODULES))
NESTED  := $(filter-out .,$(CODE))

# in-each MODULES,COMMAND runs COMMAND in the folder of each module.
in-each = for module in $(1); do echo "--- $$module: $(2)"; (cd "$$module" && $(2)); done

TESTFLAGS ?=
BENCHTIME ?= 1s
FUZZTIME  ?= 30s
# Seconds, and cases of each property between two looks at the clock.
PROPTEST_TIME   ?= 3600
PROPTEST_CHECKS ?= 500
# The range of the Services of `make serve`.
SERVE_RANGE ?= 10.96.0.0/16
# Which cuts `make e2e-kill` tries: 1 is all of them. `make e2e` tries every 29th.
KILL_STRIDE ?= 1
# How long the clients of `make soak` work.
SOAK_TIME ?= 1m

.PHONY: help
help: ## show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## start the example API server on loopback, walk through what metacidr is for, and stop it
	@cd examples/apiserver && go build -o ../../bin/ ./cmd/metacidr-apiserver ./cmd/demo
	@bin/demo

.PHONY: soak
soak: apiserver ## three replicas of the example API server, 64 clients, a kill every 5 s, for SOAK_TIME=1m: no duplicate, leak or orphan
	@bin/soak --duration=$(SOAK_TIME)

.PHONY: demo-quickstart
demo-quickstart: build ## run a real control plane on loopback, the quickstart on it, and stop it
	@examples/quickstart/demo.sh

.PHONY: serve
serve: apiserver ## run the example API server until Ctrl-C, for kubectl; its data stay in .cache/serve
	@mkdir -p -m 700 .cache/serve
	@echo 'In another terminal, in this folder: export KUBECONFIG="$$PWD/.cache/serve/admin.kubeconfig"; kubectl get servicecidrs'
	@bin/metacidr-apiserver --data-dir=.cache/serve --bind-address=127.0.0.1 --service-cluster-ip-range=$(SERVE_RANGE)

.PHONY: apiserver
apiserver: ## the programs of examples/apiserver, into bin/
	@cd examples/apiserver && go build -o ../../bin/ ./cmd/...

.PHONY: test
test: ## go vet and go test -race in the library's module
	go vet ./...
	go test -race -timeout 5m $(TESTFLAGS) ./...

# One package at a time: each starts a control plane of its own. For the race detector: TESTFLAGS=-race.
.PHONY: e2e
e2e: build ## tests against a real etcd and kube-apiserver, which are built first
	bin/controlplane --build-only
	@$(call in-each,$(NESTED),go test -count=1 -p 1 -timeout 20m $(TESTFLAGS) ./...)

.PHONY: e2e-renumber
e2e-renumber: build ## the renumbering runner on a real kube-apiserver: 2,000 Services, every playbook, other clients, the gap
	bin/controlplane --build-only
	@cd e2e && METACIDR_SERVICES=2000 go test -count=1 -v -timeout 40m -skip Killed $(TESTFLAGS) ./renumber

# Some 600 cuts of about 10 s, four at a time.
.PHONY: e2e-kill
e2e-kill: build ## the runner killed after every KILL_STRIDE=1 API call and write of its journal, resumed and rolled back; the API server killed
	bin/controlplane --build-only
	@METACIDR_KILL_STRIDE=$(KILL_STRIDE) go test -count=1 -v -run TestI12 ./lifecycle/renumber
	@cd e2e && METACIDR_KILL_STRIDE=$(KILL_STRIDE) go test -count=1 -v -timeout 3h -run Killed $(TESTFLAGS) ./renumber

.PHONY: lint
lint: vet ## gofmt, go vet and staticcheck in all modules
	@unformatted=$$(gofmt -l $$(find . -path './.*' -prune -o -name '*.go' -print)); \
	if [[ -n $$unformatted ]]; then echo "not gofmt-ed:" $$unformatted >&2; exit 1; fi
	@$(call in-each,$(CODE),go tool -modfile="$(CURDIR)/tools/go.mod" staticcheck ./...)

.PHONY: vet
vet:
	@$(call in-each,$(CODE),go vet ./...)

.PHONY: mutants
mutants: ## allocators and controllers that are broken in a known way, and the property that catches each
	go test -count=1 -v -run TestNoMutantSurvives ./proptest/mutants ./lifecycle/repair

.PHONY: proptest-long
proptest-long: ## the properties on our own allocator for PROPTEST_TIME=3600 seconds, with other seeds each time
	@mkdir -p .cache && go test -c -o .cache/proptest.test ./proptest
	@cd proptest && actions=0 && while ((SECONDS < $(PROPTEST_TIME))); do \
		../.cache/proptest.test -test.v -test.timeout 2h -test.run TestMeta_HasAllProperties -rapid.checks $(PROPTEST_CHECKS) \
			> ../.cache/proptest.log || { cat ../.cache/proptest.log; exit 1; }; \
		((actions += $$(awk '/ actions$$/ { n += $$(NF-1) } END { print n + 0 }' ../.cache/proptest.log))); \
		echo "no failure in $$actions actions, $$SECONDS s"; \
	done

.PHONY: upstream-properties
upstream-properties: ## which properties hold for Kubernetes' own allocator and ServiceCIDR controller, with a story for each that does not
	cd proptest/upstream && go run .

.PHONY: bench
bench: ## the benchmarks beside the code; BENCHTIME=1s
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./cidr ./weighting ./informer ./allocator ./meta ./lifecycle/servicecidr

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME=30s
	@grep -roE --include='*_test.go' --exclude-dir='.?*' '^func Fuzz\w+' . | sort | while IFS=: read -r file func; do \
		echo "--- $$file: $${func#func }"; \
		(cd "$$(dirname "$$file")" && go test -run '^$$' -fuzz "^$${func#func }$$" -fuzztime $(FUZZTIME) . </dev/null); \
	done

.PHONY: tidy-check
tidy-check: ## fail if go mod tidy would change a module
	@$(call in-each,$(MODULES),go mod tidy -diff)

.PHONY: openapi-check
openapi-check: ## fail if go generate changes the OpenAPI definitions of examples/apiserver
	@cd examples/apiserver/internal/openapi && before=$$(mktemp) && trap 'rm -f "$$before"' EXIT && \
	cp zz_generated.openapi.go "$$before" && go generate . && \
	{ cmp -s "$$before" zz_generated.openapi.go || { echo "zz_generated.openapi.go was stale; it is new now, commit it" >&2; exit 1; }; }

.PHONY: build
build: ## the programs, into bin/
	go build -o bin/ ./...
	cd e2e && go build -o ../bin/ ./cmd/...
	cd examples/apiserver && go build -o ../../bin/ ./cmd/...

.PHONY: modules
modules: ## list the modules with code
	@printf '%s\n' $(CODE)

.PHONY: clean
clean: ## remove bin/ and .cache/; Go's caches stay
	rm -rf bin .cache
