# Heartwood: every command a developer needs. `make help` lists them.
# Needs Go, git, make and bash; all other tools are Go modules under hack/tools, pinned there and built on first use.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export GOTOOLCHAIN := local

# The version is the nearest tag, or "dev"; the commit says the rest.
VERSION ?= $(shell git describe --tags --abbrev=0 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
FUZZTIME ?= 10s
IMAGE ?= heartwood.dev/heartwood:$(VERSION)
CLIENT_IMAGE ?= heartwood.dev/e2e-client:$(VERSION)
module := heartwood.dev/heartwood
LDFLAGS := -s -w -X $(module)/internal/version.version=$(VERSION) -X $(module)/internal/version.commit=$(COMMIT)

# Packages in which something runs at once: only there can -race find anything, and it costs four times the time.
racy = $(shell grep -rlE --include='*.go' '^\s+go [a-zA-Z_]|\.Go\b' internal controllers | xargs -r -n 1 dirname | sort -u | sed 's,^,./,')
# etcd and kube-apiserver for envtest; built once, and cached outside the tree, where the caller names none.
assets = "$${KUBEBUILDER_ASSETS:-$$(hack/kubetools/assets.sh)}"

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: ## Build the static binary bin/heartwood.
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/heartwood ./cmd/heartwood

# Of one package: on a slow machine some take minutes. A test that waits in vain says so long before, with what it waited for; one that
# hangs is ended here, and go test prints what every goroutine does.
TEST_TIMEOUT ?= 30m
.PHONY: test
test: build ## Run all tests but e2e and compat: units, layers, envtest, and the smoke test of the built binary.
	assets=$(assets); KUBEBUILDER_ASSETS="$$assets" HEARTWOOD_BINARY="$(CURDIR)/bin/heartwood" go test -timeout $(TEST_TIMEOUT) ./...
	cd hack/image && go test .

.PHONY: race
race: ## Run the race detector over the packages that have goroutines.
	assets=$(assets); KUBEBUILDER_ASSETS="$$assets" go test -race $(racy)

CRASHPOINTS ?= 10000
.PHONY: crash
crash: ## Cut the power CRASHPOINTS (10000) times at random moments of random work on a store, and compare with a model; prints its seeds.
	go test ./internal/logstore -run '^TestCrashes$$' -count=1 -v -timeout 20m -crash.points=$(CRASHPOINTS) -crash.time=12m

SIM_TIME ?= 10m
SIM_RUNS ?= 0
SIM_SEED ?= 1
.PHONY: sim
sim: ## Play the replicated cluster under faults for SIM_TIME (10m), or SIM_RUNS times, from seed SIM_SEED (1) on; prints the seed that fails.
	go test ./test/sim -count=1 -v -timeout 0 -sim.from=$(SIM_SEED) -sim.runs=$(SIM_RUNS) $(if $(filter 0,$(SIM_RUNS)),-sim.time=$(SIM_TIME)) | grep -v -e '^=== RUN' -e '--- PASS'

SOAK_TIME ?= 10m
.PHONY: soak
soak: build ## Run every test that draws random numbers with new seeds, over and over for SOAK_TIME (10m); prints those that fail.
	assets=$(assets); KUBEBUILDER_ASSETS="$$assets" HEARTWOOD_BINARY="$(CURDIR)/bin/heartwood" hack/soak.sh $(SOAK_TIME)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s).
	hack/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## Run the Go benchmarks; compare with benchstat before a claim, and write figures that last into docs/bench.
	go test -run '^$$' -bench . -benchmem ./internal/...

.PHONY: lint
lint: ## Check format, vet, golangci-lint, generated files and the chart.
	hack/lint.sh

.PHONY: generate
generate: ## Make the generated files again: deepcopy, CRDs, RBAC, the chart's copies.
	hack/generate.sh

.PHONY: verify
verify: ## Check that the generated files are what generate makes.
	hack/verify.sh

.PHONY: image
image: build ## Write the image IMAGE to bin/image.tar (docker-archive); needs no container engine.
	cd hack/image && go run . -image '$(IMAGE)' -binary ../../bin/heartwood -version '$(VERSION)' -commit '$(COMMIT)' -out ../../bin/image.tar

.PHONY: e2e-image
e2e-image: ## Write the image CLIENT_IMAGE of the end-to-end test's client to bin/e2e-client.tar.
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/e2e-client ./test/e2e/client
	cd hack/image && go run . -image '$(CLIENT_IMAGE)' -binary ../../bin/e2e-client -version '$(VERSION)' -commit '$(COMMIT)' -out ../../bin/e2e-client.tar

.PHONY: compat
compat: build ## Run Kafka's clients that this machine has (kcat, Python, Java; KAFKA_LIB: its jars; COMPAT_CLIENTS: more programs) against the built binary.
	HEARTWOOD_BINARY="$(CURDIR)/bin/heartwood" go test -tags compat -count=1 -timeout 40m -v ./test/compat

# A script that breaks nodes and the API server of the cluster and mends them, such as hack/e2e-faults.sh; without one those steps are skipped.
FAULTS ?=
E2E_RUN ?= .
.PHONY: e2e
e2e: ## Run the end-to-end tests on the Kubernetes of KUBECONFIG with the images IMAGE and CLIENT_IMAGE, already on its nodes; FAULTS breaks it.
	IMAGE='$(IMAGE)' CLIENT_IMAGE='$(CLIENT_IMAGE)' FAULTS='$(abspath $(FAULTS))' \
		go test -tags e2e -count=1 -timeout 60m -v -run '$(E2E_RUN)' ./test/e2e
