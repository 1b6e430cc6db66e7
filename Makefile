# The verbs of this repository. `make` alone lists the verbs. A line that begins with ## continues
# the text of the verb above.

GO   ?= go
LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# The sizes of longer runs; for example: make sim SEEDS=100 SEED=4711
SEED     ?= 1
SEEDS    ?= 1000
SECONDS  ?= 60
SOAK     ?= 4h
KEYS     ?= 5000000
FUZZTIME ?= 60s
FOR      ?=
N        ?= 10
COUNT    ?= 6
BENCH    ?= bench/out
ARGS     ?=

.DEFAULT_GOAL := help
.PHONY: help test race contrib peers redis-clients lint fmt fuzz sim soak pages explore mutants \
	mutants-source tables chaos bench bench-core benchmarks cost cross same repeat ci hunt \
	gate-under-load quickstart

help: ## lists the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 } \
		/^## / { printf "%23s%s\n", "", substr($$0, 4) }' $(MAKEFILE_LIST)

test: ## runs the tests of the library, real processes included, save seven that wait for long
	$(GO) test ./...

race: ## runs all tests of the library under the race detector
	$(GO) test -race -timeout 30m ./...

contrib: ## tests the modules in contrib, deploy and examples under the race detector
	@for mod in contrib/*/go.mod contrib/resp/clients/go.mod deploy/go.mod examples/*/go.mod; do \
		echo "-- $${mod%/go.mod}"; (cd "$${mod%/go.mod}" && $(GO) test -race ./...) || exit 1; \
	done

peers: ## tests etcd and Redlock with locktest, in bench: a minute
	cd bench && $(GO) test -count=1 -v ./...

redis-clients: ## tests the installed Redis clients (Go, Node.js, Python, Ruby, PHP), and
## compares answers and throughput with a Redis: minutes
	cd contrib/resp/clients && $(GO) test -tags hunt -count=1 -timeout 30m -v ./...

lint: ## vets and lints; the first time builds golangci-lint, which takes minutes
	$(GO) vet -tags hunt ./...
	$(GO) run $(LINT) run --build-tags hunt ./...

fmt: ## formats all code
	gofmt -w $$(git ls-files -co --exclude-standard '*.go')

fuzz: ## fuzzes every target for FUZZTIME (60s)
	./.ci/fuzz $(FUZZTIME)

sim: ## runs SEEDS (1000) simulated meshes of SECONDS (60) each with all faults, from
## SEED (1) on: a minute
	LOCKMESH_SIM_SEED=$(SEED) LOCKMESH_SIM_SEEDS=$(SEEDS) LOCKMESH_SIM_SECONDS=$(SECONDS) \
		$(GO) test ./sim -run '^TestSwarm' -count=1 -timeout 0 -v

soak: ## runs simulated meshes of every kind, each kind for SOAK (4h); uses KEYS
## (5000000) keys once, and counts the work of a million keys and waiters
	LOCKMESH_KEYS=$(KEYS) $(GO) test ./internal/node -run KeysUsedOnce -count=1 -timeout 0 -v
	LOCKMESH_WORK_KEYS=1000000 $(GO) test ./internal/node -run NoStepOfANodeExceedsItsBudget -parallel 1 -count=1 -timeout 0 -v
	LOCKMESH_WORK_KEYS=60000 $(GO) test ./internal/sockettest -run WatchesOfAllKeysLoseNoLease -count=1 -timeout 0 -v
	$(GO) run ./sim/cmd/lockmesh-sim -seed $(SEED) -seconds 300 -for $(SOAK)
	$(GO) run ./sim/cmd/lockmesh-sim -seed $(SEED) -seconds 300 -for $(SOAK) -beyond
	$(GO) run ./sim/cmd/lockmesh-sim -seed $(SEED) -seconds 300 -for $(SOAK) -dynamic
	$(GO) run ./sim/cmd/lockmesh-sim -seed $(SEED) -seconds 300 -for $(SOAK) -by-count
	$(GO) run ./sim/cmd/lockmesh-sim -seed $(SEED) -seconds 300 -for $(SOAK) -register
	$(GO) run ./sim/cmd/lockmesh-sim -seed $(SEED) -seconds 300 -for $(SOAK) -misconfigured
	$(GO) run ./sim/cmd/lockmesh-sim -seed $(SEED) -seconds 300 -for $(SOAK) -coalescing
	$(GO) run ./sim/cmd/lockmesh-sim -seed $(SEED) -seconds 300 -for $(SOAK) -pieces

explore: ## explores every order of events within small limits, then within wider limits:
## locks for FOR (50s), electorate changes for FOR, births by count for FOR
	$(GO) run ./sim/cmd/lockmesh-explore -for $(or $(FOR),50s)
	$(GO) run ./sim/cmd/lockmesh-explore -electorate -for $(or $(FOR),50s)
	$(GO) run ./sim/cmd/lockmesh-explore -birth -for $(or $(FOR),50s)

pages: ## compares every output in docs/planning.md and docs/performance.md with the
## output of the command
	LOCKMESH_PAGES=1 $(GO) test ./sim/cmd/... -run "PlanningPage|PerformancePage" -count=1

mutants: ## breaks each rule of the protocol, and shows which check finds the broken rule
	LOCKMESH_MUTANTS=1 $(GO) test -tags hunt ./sim ./sim/explore ./sim/explore/elect ./sim/explore/span -run Mutant -count=1 -timeout 30m -v

tables: ## rewrites the tables of mutants in docs/simulation.md, and the outputs in
## docs/planning.md and docs/performance.md: 30 minutes
	$(GO) test -tags hunt ./sim -run 'TableOfMutants|BrokenRules' -update -timeout 0 -v
	$(GO) test ./sim/cmd/lockmesh-sim -run PlanningPage -update
	$(GO) test ./sim/cmd/lockmesh-cost -run PerformancePage -update

mutants-source: ## breaks 330 lines of the core, one at a time, and lists the lines that no test
## notices: 15 minutes; ARGS="-only lease" and the like do less
	$(GO) run ./sim/cmd/lockmesh-mutants $(ARGS)

chaos: ## kills, stops and restarts real processes, three times over
	$(GO) test -tags hunt ./internal/proctest -count=3 -timeout 30m -v

bench: ## compares lockmesh with Redis, etcd and the least possible cost, and writes to
## BENCH (bench/out): 20 minutes; ARGS="-rounds 1" and the like do less
	cd bench && $(GO) run ./cmd/lockbench -out $(abspath $(BENCH)) $(ARGS)

benchmarks: ## runs the benchmarks of the packages
	$(GO) test ./... -run '^$$' -bench . -benchmem

bench-core: ## compares the core's benchmarks with the commit BASE (the commit before), in
## COUNT (6) alternating rounds: some minutes
	BASE=$(BASE) COUNT=$(COUNT) ./.ci/bench-core

cost: ## prints the cost of locks in messages and rounds for rising numbers of nodes,
## voters and leases, by the simulator: half a minute
	$(GO) run ./sim/cmd/lockmesh-cost

same: ## compares simulated worlds and the bytes on the wire with the commit BASE (the
## commit before), to show that a refactoring changed nothing: 2 minutes
	BASE=$(BASE) ./.ci/same

repeat: ## repeats each test that changed since BASE (main), on one, two and four
## processors, to find a test that depends on luck
	BASE=$(BASE) ./.ci/repeat

cross: ## builds and vets for every supported system
	./.ci/cross

ci: ## runs the gate: is this commit right? Under 8 minutes on two cores
	./.ci/run

hunt: ## looks for unknown faults with fresh randomness: for FOR (such as 30m), or
## each hunt once; ARGS="-cores 1 seeds" and the like choose
	./.ci/hunt $(if $(FOR),-for $(FOR)) $(ARGS)

gate-under-load: ## runs the gate N (10) times beside two processes that burn a core each
	./.ci/under-load $(N)

quickstart: ## runs the tour: three nodes, a crash, a takeover, a restart
	$(GO) run ./examples/quickstart
