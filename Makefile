# Every command of this project. `make` lists them.

GO       ?= go
BIN      := bin/perdure
# What tests use from npm: servers, and the official conformance suite.
NPM      := $(wildcard test/program/testdata/*/package-lock.json)
SHARED   ?= ../shared/conformance
DATA     ?= .perdure
# Packages whose race-enabled build does not pull the Temporal server in.
RACED    := ./activities/... ./definitions/... ./gateway/... $(addprefix ./,$(addsuffix /...,$(filter-out internal/quarantine internal/devserver internal/runs internal/telemetry internal/payloads,$(wildcard internal/*)))) ./workflows/...
# Packages with fuzz tests that build without a Temporal server, and which tests
# of them: a regular expression for "package target".
FUZZED   := definitions definitions/template definitions/view internal/starlark workflows/record workflows/script workflows/deftest gateway internal/backends internal/backends/repo internal/payloads
FUZZ     ?= .
FUZZTIME ?= 60s
# How long a fuzz test may try to make one input smaller, of its time.
FUZZMIN  ?= 10s
# Tests that measure what hostile input costs, which the race detector multiplies,
# and the packages that have them.
COSTLY   := ^Test(Attack(AnswersOfASlowReader|BackendAnswers|BackendLists|BackendStderr|Computing|EveryFormatCharacter|Libraries|ManyAnswersOfATask|ManyCalls|ManyLargeAnswers|ManyReferences|ManySecrets|Patterns|Replacements|Room|Schemas|SchemaPatterns|UnknownNames|WaitingCallHoldsNothing)|Bombs|HostileDefinitions|LargeParallel(Arguments|Results)|ManyLargeOutcomes|TemplateBombs|TemplateLimits|WaitingRequestsHoldNoRoom)$$
COSTING  := ./definitions/... ./gateway ./internal/backends ./internal/starlark ./workflows ./workflows/script
# What tests must find here instead of skipping.
REQUIRE  := PERDURE_TEST_REQUIRE=npm,postgres,chromium
# How tests run: make check has vetted them.
TEST     := $(GO) test -count=1 -vet=off
# Packages whose tests mostly wait for servers: more of them run at a time than there are
# processors. The second is of RACED.
WAITING  := ./internal/quarantine ./internal/runs
WAITED   := ./internal/backends
# Calls that make resets makes at random.
RUNS     ?= 70
# How long the storm of make chaos is.
TIME     ?= 3m
# Whole-program tests that start two gateways and two workers on a Temporal with
# PostgreSQL, kill each of them, restore a backup, and look at all of it.
PRODLOCAL := ^Test(Replicas|ReplicaKilled|TemporalRestarted|RollingRestart|Serve|WorkersDrain|RepeatedAtReplicas|Restore|RestoreSealed|Rollout|Production|ProductionKilled)$$
# Random definitions that make property runs.
CASES    ?= 10000
# Random runs that it loses answers of, continues as new, repairs and runs again.
TROUBLED ?= 3000
# Random definitions of which it compares the script that they convert to.
CONVERTED ?= 1000
# Tests of make attack besides those whose names say that they attack: in them
# somebody takes, forges, floods or loses something.
ATTACKS  := $(strip \
	Callers ClientsDoNotAnswerForThePage ForgedForms OnThisMachine OthersSeeNothing PermissionOfTheWholeClosure Proofs ResolvePermission TextIsText UnprovenAnswers \
	BudgetIsShared FailAKiller HostileArguments HostileDefinitions HostileFiles KillerWhereTemporalCannotPause OpenRunsAreBounded QueryOfAKiller \
	QuotaLetsKnownRunsBeFound RequestsAreBounded RunsPerMinuteAreBounded TemplateLimits WaitingRunsAreBounded \
	AnswerToAnEarlierAsking AnswerToAnUnknownQuestion AnswerUnderAnUnknownID Effects ExactIDs GenerationOfTheFuture Generations HandleAtOnce LateDiscover Outage \
	QuestionIsLeftAloneForTenMinutes ReplicaKilledWithAnAnswer RequestStateIsRefused ResumedProgressKeepsItsTotal ServersOfSDKs StdioCancel \
	Decided Field Form RequiredFieldsHaveNoDefault WhatAnswersGive \
	BusinessKey ChartMetrics ChartRefuses ChildEnvironment ComposeChecksHosts DataIsClosedToOthers IssuerDown KeyRotation Limit ListenersAreDocumented \
	OIDCRefuses OneMakesServers OriginPolicy Pods WebUIOnlyShows)
ATTACK   := ^Test(Attack.*|.*Bombs|$(subst $() $(),|,$(ATTACKS)))$$
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

COMMIT   ?= $(shell git rev-parse HEAD 2>/dev/null)

export GOFLAGS ?= -buildvcs=false

.DEFAULT_GOAL := help
.PHONY: dist help build run test test-waiting test-raced test-stored soak check attack property licences sbom fuzz fmt vulncheck servers bench chaos resets prod-local figures pictures conformance mcp-conformance histories deployment manifests clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

build: ## Build bin/perdure (the first build takes some minutes: it holds a whole Temporal server)
	@test -d $${GOCACHE:-$$($(GO) env GOCACHE)}/00 || echo "first build: compiling the Temporal server takes some minutes"
	$(GO) build -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)' -o $(BIN) ./cmd/perdure

run: build ## Build and start everything in one process; Ctrl-C ends it
	$(BIN) dev --data $(DATA)

test: servers ## Run all tests (fetches what they need: npm servers, PostgreSQL, a browser)
	@.ci/test-deps
	@$(MAKE) --no-print-directory -j3 $(if $(filter output-sync,$(.FEATURES)),-Otarget) test-raced test-waiting test-stored
	$(REQUIRE) $(TEST) -timeout 15m -run '$(COSTLY)' $(COSTING)
	cd test && $(REQUIRE) $(TEST) -timeout 45m -parallel 6 ./program

# These go well beside each other: tests of the first one wait, mostly, and those of the last
# one for PostgreSQL.
test-waiting:
	$(REQUIRE) $(TEST) -timeout 20m -parallel 8 $(WAITING)
	$(REQUIRE) $(TEST) -timeout 15m -parallel 8 -race -skip '$(COSTLY)' $(WAITED)

test-raced:
	$(REQUIRE) $(TEST) -timeout 15m -race -skip '$(COSTLY)' $$($(GO) list $(RACED) | grep -vxF "$$($(GO) list $(WAITED))")
	$(REQUIRE) $(TEST) -timeout 15m $$($(GO) list ./... | grep -vxF "$$($(GO) list $(RACED) $(WAITING))")

test-stored:
	cd test && $(REQUIRE) $(TEST) -timeout 15m -race ./store ./registry
	cd test && $(REQUIRE) $(TEST) -timeout 15m $$($(GO) list ./... | grep -vE '/(store|registry|program)$$')

soak: ## Run for an hour what CI runs for minutes: random definitions, chaos, fuzz tests
	@$(MAKE) --no-print-directory property
	@$(MAKE) --no-print-directory chaos TIME=5m
	@$(MAKE) --no-print-directory resets
	@$(MAKE) --no-print-directory prod-local
	cd test && PERDURE_TEST_WAITING=5000 PERDURE_TEST_REQUIRE=postgres $(GO) test -count=1 -v -timeout 30m -run '^TestManyWait$$' ./program
	@$(MAKE) --no-print-directory fuzz FUZZTIME=2m

check: ## gofmt, vet, staticcheck, workflowcheck, what deploy/ has, govulncheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not gofmt-ed: $$unformatted"; exit 1; }
	$(GO) mod verify >/dev/null
	$(GO) vet ./...
	$(GO) vet -tags nodev ./cmd/perdure
	$(GO) vet -tags planted ./internal/service
	$(GO) tool staticcheck ./...
	$(GO) tool workflowcheck -config workflows/workflowcheck.yaml ./workflows
	cd test && $(GO) vet ./...
	@$(MAKE) --no-print-directory deployment
	@$(MAKE) --no-print-directory vulncheck

vulncheck: ## Look for known vulnerabilities, where their database can be reached
	@if curl -fsS --max-time 10 -o /dev/null https://vuln.go.dev/index/db.json 2>/dev/null; then $(GO) tool govulncheck ./...; \
	else echo "govulncheck: its database cannot be reached from here, not run"; fi

deployment: ## Check the Helm chart, the compose file, the alerts and the dashboard with what reads them
	cd deploy/check && $(GO) vet . && $(GO) test -count=1 .

manifests: ## Write deploy/kubernetes.yaml anew from the Helm chart
	cd deploy/check && $(GO) test -count=1 -run 'TestManifests|TestPods' . -update

property: ## Run CASES random definitions in the interpreter, beside a sequential reference, their dry runs and the scripts that they convert to
	$(GO) test -c -vet=off -ldflags '-s -w' -o bin/workflows.test ./workflows
	cd workflows && ../bin/workflows.test -test.timeout 30m -test.run '^TestRandomDefinitions$$' -cases $(CASES)
	cd workflows && ../bin/workflows.test -test.timeout 30m -test.run '^(TestRandomRunsInTrouble|TestResumeOfRandomRuns)$$' -cases $(TROUBLED)
	cd workflows && ../bin/workflows.test -test.timeout 30m -test.run '^(TestConvertedRandomDefinitions|TestConvertedRandomLanguage)$$' -cases $(CONVERTED)

licences: ## Write docs/licences.md: what is linked into the program, and under which licence
	GO="$(GO)" .ci/licences > docs/licences.md.new && mv docs/licences.md.new docs/licences.md || { rm -f docs/licences.md.new; exit 1; }

sbom: build ## Write bin/sbom.json: what bin/perdure was built of, as CycloneDX has it
	$(GO) run ./.ci/sbom $(BIN) $(VERSION) > bin/sbom.json

dist: ## Build what is released into dist/: programs for linux and darwin, amd64 and arm64, with pages, SBOM and checksums
	GO="$(GO)" .ci/dist $(VERSION)

attack: servers ## Run every attack on real roles and on what reads foreign input
	$(REQUIRE) $(GO) test -count=1 -timeout 20m -run '$(ATTACK)' ./...
	cd test && $(REQUIRE) $(GO) test -count=1 -timeout 20m -run '$(ATTACK)' ./...
	cd deploy/check && $(GO) test -count=1 -run '$(ATTACK)' .

fuzz: ## Run the fuzz tests that match FUZZ, one after the other, each for FUZZTIME
	@for package in $(FUZZED); do \
		for target in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$package/*_test.go | sed 's/func //'); do \
			echo "$$package $$target" | grep -E '$(FUZZ)' || continue; \
			$(GO) test -vet=off -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime $(FUZZMIN) ./$$package || exit 1; \
		done; \
	done

pictures: build ## Draw the pictures of the documentation anew (needs Chromium)
	cd test && $(GO) test ./program -count=1 -run "^TestPictures$$" -update

figures: ## Count what can be counted of the source: lines, functions, structs, packages
	cd test && $(GO) run ./figures

fmt: ## Format all Go files
	gofmt -w $$(git ls-files '*.go')

servers: $(NPM:package-lock.json=node_modules/.package-lock.json) ## Install what tests use from npm: servers, clients, the conformance suite

%/node_modules/.package-lock.json: %/package-lock.json
	@command -v npm >/dev/null || { echo "tests need Node.js 20 or newer with npm: install it and try again"; exit 1; }
	npm ci --prefix $* --no-audit --no-fund --ignore-scripts --loglevel=error --fetch-timeout=30000 --fetch-retries=5
	@touch $@

conformance: build ## Run the black-box cases of SHARED against bin/perdure dev (ARGS=… goes to the runner)
	cd $(SHARED) && $(GO) run . -sut "$(CURDIR)/$(BIN) dev --config {config} --listen {listen} --data {data} --ui-listen ''" \
		-validate "$(CURDIR)/$(BIN) validate --config {config}" $(ARGS)

mcp-conformance: servers ## Run the official MCP conformance suite against the gateway and print its score
	cd test && PERDURE_TEST_REQUIRE=npm $(GO) test -count=1 -v -run 'TestConformance$$' ./program | grep -E '✗|holds now|Total|^ *---|^(ok|FAIL)'

resets: build ## Reset, resume, cancel and kill random runs, and check that a write happens once (SEED=… once more)
	cd test && $(GO) build -o ../bin/resets ./resets
	bin/resets -runs $(RUNS) $(if $(SEED),-seed $(SEED)) $(ARGS)

bench: build ## Measure composites of bin/perdure dev beside bare Temporal workflows, in one run
	cd test && $(GO) build -o ../bin/bench ./bench
	bin/bench -perdure $(BIN) -load $(SHARED) $(ARGS)

bench-production: ## Measure what runs take of each process of production, with one worker and two (ARGS='-gates 10000': open gates)
	@$(MAKE) --no-print-directory replicas
	cd test && $(GO) build -o ../bin/bench ./bench
	bin/bench -perdure bin/perdure-nodev -load $(SHARED) $(or $(ARGS),-production)

chaos: ## Kill, stop and cut off everything for TIME, and check what is promised (SEED=… once more)
	@$(MAKE) --no-print-directory replicas
	$(GO) build -tags 'nodev planted' -ldflags '-s -w' -o bin/perdure-planted ./cmd/perdure
	cd test && $(GO) build -o ../bin/chaos ./chaos
	bin/chaos -faulty bin/perdure-planted -time $(TIME) $(if $(SEED),-seed $(SEED)) $(ARGS)

# Cases of SHARED that kill the server, D, are those of one process; here the
# tests below kill one process after the other.
prod-local: ## Run whole-program tests against production as processes; KEEP=1 only starts it, to look at
	@$(MAKE) --no-print-directory replicas
ifdef KEEP
	bin/prodlocal $(ARGS)
else
	cd $(SHARED) && $(GO) run . -run '^[^D]' -start-timeout 2m -timeout 40m -sut "$(CURDIR)/bin/prodlocal -perdure $(CURDIR)/bin/perdure-nodev -config {config} -listen {listen} -data {data}" \
		-validate "$(CURDIR)/bin/perdure-nodev validate --config {config}" $(ARGS)
	cd test && PERDURE_TEST_REQUIRE=postgres $(GO) test -count=1 -timeout 20m -run '$(PRODLOCAL)' ./program
endif

# What chaos and prod-local start: perdure as it runs in production, and what it
# runs beside.
.PHONY: replicas
replicas:
	@.ci/test-deps
	$(GO) build -tags nodev -ldflags '-X main.version=$(VERSION)' -o bin/perdure-nodev ./cmd/perdure
	cd test && $(GO) build -ldflags '-s -w' -o ../bin/prodlocal ./prodlocal

histories: ## Record workflows/testdata/histories anew (only for new ones: old ones must keep replaying)
	cd test && $(GO) test -count=1 -run TestRecordHistories ./program -record
	$(GO) test -count=1 -run TestRecordCalled ./internal/runs -record

clean: ## Remove what builds left behind (not the data of runs)
	rm -rf bin dist
