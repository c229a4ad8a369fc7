#!/bin/bash
# generate.sh regenerates the files that are generated from Go code: deep copies and CRDs (api/),
# the operator's RBAC (controllers/), docs/use/resources.md, docs/use/broker-configs.md, the
# pictures of docs/internals/bench (from docs/internals/bench/results), the console's assets (from
# internal/console/web), and the chart's README and copies. hack/verify.sh fails when the result
# differs from the committed files.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOTOOLCHAIN=local
controller_gen() { go tool -modfile=hack/tools/controller-gen/go.mod controller-gen "$@"; }

controller_gen object crd paths=./api/... output:crd:dir=config/crd
controller_gen rbac:roleName=heartwood-operator paths=./controllers/... output:rbac:dir=config/rbac

go run ./hack/resourcesdoc > docs/use/resources.md
go run ./hack/brokerconfigsdoc brokers > docs/use/broker-configs.md
go run ./hack/brokerconfigsdoc topics > docs/use/topic-configs.md

# The pictures of docs/internals/bench.
go run ./hack/plots

# The console's scripts and style sheet.
(cd hack/tools/web && go run . ../../..)

# The chart's README, from the comments of values.yaml.
go tool -modfile=hack/tools/helm-docs/go.mod helm-docs --chart-search-root charts/heartwood \
  --sort-values-order file --skip-version-footer --log-level warning

# The chart's copies of generated files and of files in config.
cp config/crd/*.yaml charts/heartwood/files/crds/
cp config/rbac/role.yaml charts/heartwood/files/operator-role.yaml
cp config/admission/logclusters.yaml charts/heartwood/files/logcluster-policy.yaml
cp config/admission/logusers.yaml charts/heartwood/files/loguser-policy.yaml
cp config/admission/partitionsets.yaml charts/heartwood/files/partitionset-policy.yaml
cp config/admission/topics.yaml charts/heartwood/files/topic-policy.yaml
cp config/prometheus/rules.yaml charts/heartwood/files/rules.yaml
