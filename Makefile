# The verbs of this repository. `make` alone lists them.

GO   ?= go
LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# How much a longer run does; for example: make sim SEEDS=100 SEED=4711
SEED     ?= 1
SEEDS    ?= 2000
SECONDS  ?= 300
FUZZTIME ?= 60s

.DEFAULT_GOAL := help
.PHONY: help test race contrib lint fmt fuzz sim mutants chaos bench cross ci quickstart

help: ## lists the verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

test: ## runs all tests, real processes included
	$(GO) test ./...

race: ## runs all tests under the race detector
	$(GO) test -race ./...

contrib: ## tests the adapters in contrib under the race detector, each a module of its own
	@for mod in contrib/*/go.mod; do \
		echo "-- $${mod%/go.mod}"; (cd "$${mod%/go.mod}" && $(GO) test -race ./...) || exit 1; \
	done

lint: ## vets and lints; the first time builds golangci-lint, which takes minutes
	$(GO) vet ./...
	$(GO) run $(LINT) run ./...

fmt: ## formats all code
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')

fuzz: ## fuzzes every target for FUZZTIME (60s)
	./.ci/fuzz $(FUZZTIME)

sim: ## runs SEEDS (2000) simulated meshes of SECONDS (300) each with all faults, from SEED (1) on
	LOCKMESH_SIM_SEED=$(SEED) LOCKMESH_SIM_SEEDS=$(SEEDS) LOCKMESH_SIM_SECONDS=$(SECONDS) \
		$(GO) test ./sim -run '^TestSwarm$$' -count=1 -timeout 0 -v

mutants: ## breaks each rule of the protocol in turn, and tells which check finds it out
	$(GO) test ./sim -run Mutant -count=1 -v

chaos: ## kills, stops and restarts real processes, three times over
	$(GO) test ./internal/proctest -count=3 -timeout 30m -v

bench: ## runs the benchmarks
	$(GO) test ./... -run '^$$' -bench . -benchmem

cross: ## builds and vets for every supported system
	./.ci/cross

ci: ## does all that CI does
	./.ci/run

quickstart: ## runs the tour: three nodes, a crash, a takeover, a restart
	$(GO) run ./examples/quickstart
