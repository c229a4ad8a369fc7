# The commands for developers of Heartwood; `make help` lists them. They need Go, git, make and
# bash. All other tools are Go modules under hack/tools, pinned there and built on first use.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export GOTOOLCHAIN := local

# The version is the nearest tag, or "dev"; the commit identifies the source exactly.
VERSION ?= $(shell git describe --tags --abbrev=0 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
FUZZTIME ?= 10s
IMAGE ?= heartwood.dev/heartwood:$(VERSION)
CLIENT_IMAGE ?= heartwood.dev/e2e-client:$(VERSION)
module := heartwood.dev/heartwood
LDFLAGS := -s -w -X $(module)/internal/version.version=$(VERSION) \
	-X $(module)/internal/version.commit=$(COMMIT)

# The packages that start goroutines. Only there can -race find a data race, at four times the
# running time.
racy = $(shell grep -rlE --include='*.go' '^\s+go [a-zA-Z_]|\.Go\b' internal controllers \
	| xargs -r -n 1 dirname | sort -u | sed 's,^,./,')
# The directory with etcd and kube-apiserver for envtest. If KUBEBUILDER_ASSETS is not set, they are
# built once and cached outside the tree.
assets = "$${KUBEBUILDER_ASSETS:-$$(hack/kubetools/assets.sh)}"

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' Makefile

.PHONY: dev
dev: build ## Run three brokers in one process, with sample topics and the web console.
	bin/heartwood dev -f config/samples

.PHONY: build
build: ## Build the static binary bin/heartwood.
	CGO_ENABLED=0 go build -v -trimpath -ldflags '$(LDFLAGS)' -o bin/heartwood ./cmd/heartwood

# The version of Go's cryptographic module; "certified" is that with a FIPS 140-3 certificate.
FIPS_MODULE ?= certified
.PHONY: fips
fips: ## Build bin/heartwood-fips with Go's validated FIPS 140-3 module, and run its smoke test.
	CGO_ENABLED=0 GOFIPS140=$(FIPS_MODULE) go build -trimpath -ldflags '$(LDFLAGS)' \
		-o bin/heartwood-fips ./cmd/heartwood
	HEARTWOOD_BINARY="$(CURDIR)/bin/heartwood-fips" go test -count=1 -run FIPS ./test/smoke

# The timeout of one package; on a slow machine some packages take minutes. A test whose condition
# does not become true fails long before, with that condition. The timeout ends a test that hangs,
# and go test prints the stack of every goroutine.
TEST_TIMEOUT ?= 30m
.PHONY: test
test: build ## Run all tests but e2e and compat, with envtest and the smoke test of the binary.
	assets=$(assets); KUBEBUILDER_ASSETS="$$assets" HEARTWOOD_BINARY="$(CURDIR)/bin/heartwood" \
		go test -timeout $(TEST_TIMEOUT) ./...
	cd hack/image && go test .

# The packages whose tests start neither the API server nor the binary nor whole brokers. With
# -short, random tests run with a tenth of their seeds, and no test starts a JVM. Four packages run
# at the same time, because some wait; the garbage of tests is collected less often. Half of the
# time is the linking of 139 test binaries. make lint runs vet.
quick = $(shell go list -f '{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}' \
	./api/... ./controllers/... ./internal/... ./cmd/... \
	| grep -v -E '/test/kit/(envtest|process|devcluster)|/internal/(broker|dev) ' | cut -d ' ' -f 1)
.PHONY: quick
quick: ## Run the tests that need neither an API server nor processes, with fewer seeds.
	GOGC=400 go test -short -vet=off -p 4 $(quick)

.PHONY: race
race: ## Run the tests of all packages that start goroutines under the race detector.
	assets=$(assets); KUBEBUILDER_ASSETS="$$assets" go test -race $(racy)

# Random operations on a store, with a power cut at random moments; after each, the store is
# compared with a model. No run starts after CRASH_TIME. A failure prints the command that repeats
# it.
CRASHPOINTS ?= 10000
CRASH_TIME ?= 12m
CRASH_TIMEOUT ?= 20m
.PHONY: crash
crash: ## Simulate CRASHPOINTS (10000) power cuts of a store and compare it with a model.
	go test ./internal/logstore -run '^TestCrashes$$' -count=1 -v -timeout $(CRASH_TIMEOUT) \
		-crash.points=$(CRASHPOINTS) -crash.time=$(CRASH_TIME)

# A replicated cluster in one process, with faults that a seed determines. It runs for SIM_TIME, or
# SIM_RUNS times if that is not 0, from seed SIM_SEED on, and prints the seed of a failure.
SIM_TIME ?= 10m
SIM_RUNS ?= 0
SIM_SEED ?= 1
.PHONY: sim
sim: ## Simulate a replicated cluster under faults for SIM_TIME (10m), from SIM_SEED (1) on.
	go test ./test/sim -count=1 -v -timeout 0 -sim.from=$(SIM_SEED) -sim.runs=$(SIM_RUNS) \
		$(if $(filter 0,$(SIM_RUNS)),-sim.time=$(SIM_TIME)) \
		| grep -v -e '^=== RUN' -e '--- PASS'

SOAK_TIME ?= 10m
.PHONY: soak
soak: build ## Repeat every random test with new seeds for SOAK_TIME (10m); prints failures.
	assets=$(assets); KUBEBUILDER_ASSETS="$$assets" HEARTWOOD_BINARY="$(CURDIR)/bin/heartwood" \
		hack/soak.sh $(SOAK_TIME)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (10s).
	hack/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## Run the Go benchmarks; compare results with benchstat (see CONTRIBUTING.md).
	go test -run '^$$' -bench . -benchmem ./internal/...

.PHONY: plots
plots: ## Draw the pictures of docs/internals/bench from docs/internals/bench/results.
	go run ./hack/plots

# Needs Python 3 with the module venv. What needs no Python is in make test, too: links, anchors and
# commands of the documents.
.PHONY: docs
docs: ## Build the documents as a site in bin/docs/site, with an offline search, and check it.
	hack/docs.sh

.PHONY: lint
lint: ## Check format, vet, golangci-lint, workflows, generated files and the chart.
	hack/lint.sh

.PHONY: generate
generate: ## Regenerate deepcopy functions, CRDs, RBAC, docs and the chart's copies.
	hack/generate.sh

.PHONY: verify
verify: ## Check that the generated files are up to date.
	hack/verify.sh

.PHONY: image
image: build ## Write the image IMAGE to bin/image.tar (docker-archive), without a container engine.
	cd hack/image && go run . -image '$(IMAGE)' -binary ../../bin/heartwood \
		-version '$(VERSION)' -commit '$(COMMIT)' -out ../../bin/image.tar

# VERSION must be a semantic version, such as v0.1.0. Users download the archives from RELEASE_URL.
# SIGNING_KEY names a secret key of minisign, with which SHA256SUMS is signed.
RELEASE_URL ?= https://heartwood.dev/releases/$(VERSION)
.PHONY: release
release: ## Write archives, image, chart, install.yaml, OLM bundle, SBOMs and sums to dist.
	SIGNING_KEY='$(SIGNING_KEY)' hack/release.sh '$(VERSION)' '$(RELEASE_URL)'

# Tests of updates run the last release; PREVIOUS_IMAGE names its image.
PREVIOUS_IMAGE ?=
.PHONY: previous
previous: ## Build the last release in hack/releases: bin/previous/heartwood, bin/previous.tar.
	go run ./hack/pinrelease build -out bin/previous/heartwood
	cd hack/image && go run . -out ../../bin/previous.tar \
		-image '$(or $(PREVIOUS_IMAGE),heartwood.dev/heartwood:previous)' \
		-binary ../../bin/previous/heartwood -version "$$(cd ../.. && go run ./hack/pinrelease last)"

.PHONY: reproduce
reproduce: ## Build the release VERSION of the last commit twice and compare all files.
	hack/reproduce.sh '$(VERSION)'

.PHONY: e2e-image
e2e-image: ## Write the image CLIENT_IMAGE, the client of the e2e tests, to bin/e2e-client.tar.
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/e2e-client ./test/e2e/client
	cd hack/image && go run . -image '$(CLIENT_IMAGE)' -binary ../../bin/e2e-client \
		-version '$(VERSION)' -commit '$(COMMIT)' -out ../../bin/e2e-client.tar

# The clients that are installed: kcat, Python, Java, Rust. KAFKA_LIB names the directory of Kafka's
# jars, COMPAT_CLIENTS further programs, NODE_PATH that of kafkajs, STREAMS_PYTHON the Python with
# Quix Streams and Faust (test/compat/doc.go). With COMPATIBILITY=1 the run writes its rows of
# docs/compatibility.md; COMPAT_RUN selects tests.
COMPAT_RUN ?=
.PHONY: compat
compat: build ## Run the installed Kafka clients and tools against the built binary.
	HEARTWOOD_BINARY="$(CURDIR)/bin/heartwood" \
		go test -tags compat -count=1 -timeout 40m -v $(if $(COMPAT_RUN),-run '$(COMPAT_RUN)') \
		./test/compat

# Needs Java 17, Maven and Python 3, for the example cdc Debian's package postgresql, and downloads
# packages into a cache folder at the first run. EXAMPLES_RUN selects tests by their names.
EXAMPLES_RUN ?= .
.PHONY: examples
examples: build ## Run every example by its one command, and check what it has left on disk.
	HEARTWOOD_BINARY="$(CURDIR)/bin/heartwood" \
		go test -tags examples -count=1 -timeout 60m -v -run '$(EXAMPLES_RUN)' ./test/examples

# FLIPS (200) and TRUNCATIONS (40) set the number of damaged places, HEARTWOOD_SEED the seed.
.PHONY: flips
flips: build ## Damage files at rest of a running cluster; everything must be repaired.
	HEARTWOOD_BINARY="$(CURDIR)/bin/heartwood" \
		go test -tags flips -count=1 -timeout 60m -v ./test/flips

# Needs Debian's package chromium, or another Chromium or Chrome: apt-get install
# --no-install-recommends chromium. PICTURES=1 writes the pictures of the documents.
BROWSER_RUN ?= .
.PHONY: browser
browser: build ## Test the web console in headless Chromium; PICTURES=1 writes the docs' pictures.
	hack/browser.sh -run '$(BROWSER_RUN)'

# Needs promtool of Prometheus (apt-get install --no-install-recommends prometheus), or PROMTOOL
# names its binary.
PROMTOOL ?= promtool
.PHONY: alerts
alerts: ## Let each alert fire once, with promtool (Debian's package prometheus).
	PROMTOOL='$(PROMTOOL)' go test -count=1 -v -run TestAlertsFire ./test/chart

# Needs Debian's packages prometheus and prometheus-alertmanager, and the right to make mount
# namespaces (root has it): apt-get install --no-install-recommends prometheus
# prometheus-alertmanager. Stop the services that the packages start. The check against Grafana's
# types needs npm. PICTURES=1 draws the panels to docs/pictures.
.PHONY: dashboards
dashboards: build ## Test dashboards and alerts with real Prometheus and Alertmanager (13 minutes).
	hack/dashboard-schema.sh
	assets=$(assets); KUBEBUILDER_ASSETS="$$assets" HEARTWOOD_BINARY="$(CURDIR)/bin/heartwood" \
		go test -tags dashboards -count=1 -v -timeout 30m ./test/dashboards | grep -v '"msg"'

# Needs KUBECONFIG; the nodes must have IMAGE and CLIENT_IMAGE. FAULTS names a script that stops and
# starts nodes and the API server of the cluster, such as hack/e2e-faults.sh. Steps that are skipped
# without it or without LATER_IMAGE fail the run, unless E2E_PARTIAL=1 is set. A run writes what
# its steps measured to docs/internals/bench/results/e2e.md.
FAULTS ?=
# An image of a later version, to which brokers are updated (test/e2e/doc.go).
LATER_IMAGE ?=
# A directory that make release has written, for the steps that install its files.
DIST ?= $(if $(wildcard dist/heartwood-*.tgz),dist)
E2E_RUN ?= .
.PHONY: e2e
e2e: build ## Run the end-to-end tests with KUBECONFIG, IMAGE, CLIENT_IMAGE; E2E_PARTIAL=1 permits skips.
	IMAGE='$(IMAGE)' CLIENT_IMAGE='$(CLIENT_IMAGE)' FAULTS='$(abspath $(FAULTS))' \
		LATER_IMAGE='$(LATER_IMAGE)' DIST='$(abspath $(DIST))' \
		PREVIOUS_IMAGE='$(PREVIOUS_IMAGE)' go test -tags e2e -count=1 -timeout 120m -v \
		-run '$(E2E_RUN)' ./test/e2e
