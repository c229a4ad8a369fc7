#!/usr/bin/env bash
# chart-lint.sh lints the chart, renders it with several sets of values, and checks each object of
# the result (hack/chartcheck).
set -euo pipefail
cd "$(dirname "$0")/.."
helm() { go tool -modfile=hack/tools/helm/go.mod helm "$@"; }

chart=charts/heartwood
rendered=$(mktemp)
trap 'rm -f "$rendered"' EXIT

render() { # EXPECTED-KINDS ARGUMENTS...
  local kinds=$1
  shift
  helm template demo "$chart" --namespace demo "$@" > "$rendered"
  go run ./hack/chartcheck -crds config/crd -kinds "$kinds" < "$rendered"
}

helm lint --strict --quiet "$chart"
base=ClusterRole,ConfigMap,Deployment,PodDisruptionBudget,Role,RoleBinding,Service,ServiceAccount
policy=ValidatingAdmissionPolicy,ValidatingAdmissionPolicyBinding
render "$base,ClusterRoleBinding,CustomResourceDefinition,$policy"
render "$base" --set 'namespaces={one,two}' --set crds.install=false --set logLevel=debug --set pprof=true \
  --set priorityClassName=high --set 'imagePullSecrets[0].name=pull' \
  --set image.digest="sha256:$(printf '0%.0s' {1..64})"
render "$base,ClusterRoleBinding,CustomResourceDefinition,$policy,PodMonitor,PrometheusRule" \
  --set monitoring.enabled=true --set monitoring.labels.release=prometheus \
  --set 'monitoring.excludeRules={HeartwoodFileDescriptorsLow}'
render "$base,ClusterRoleBinding,PodMonitor,PrometheusRule" --set 'namespaces={one}' --set crds.install=false \
  --set monitoring.enabled=true --set metrics.authorized=true \
  --set monitoring.brokers.authorization.credentials.name=token --set monitoring.brokers.authorization.credentials.key=token
render "$base,ClusterRoleBinding,CustomResourceDefinition,$policy" --set console.enabled=true
render "$base,Ingress" --set 'namespaces={one,two}' --set crds.install=false \
  --set console.enabled=true --set console.auth=none --set console.tlsSecretName=console-tls \
  --set 'console.clusters[0].namespace=one' --set 'console.clusters[0].name=main' \
  --set console.logUser=console --set console.pathPrefix=/logs --set 'console.hosts={a.example.com}' \
  --set console.ingress.enabled=true --set console.ingress.host=console.example.com \
  --set console.ingress.tlsSecretName=console-example

# Two releases with the same name in different namespaces, which both manage a third namespace, must
# not contain the same object.
objects() { # NAMESPACE
  helm template demo "$chart" --namespace "$1" --set crds.install=false \
    --set console.enabled=true --set 'console.clusters[0].namespace=shared' \
    --set 'console.clusters[0].name=main' --set 'namespaces={shared}' |
    awk 'function flush() {if (kind) print kind, space, name; kind = space = name = ""}
      /^---/ {flush()} /^[a-z]/ {part = $1} /^kind:/ {kind = $2}
      part == "metadata:" && /^  name:/ {name = $2}
      part == "metadata:" && /^  namespace:/ {space = $2} END {flush()}'
}
same=$({ objects one; objects two; } | sort | uniq -d)
if [ -n "$same" ]; then
  echo "two releases with the same name in two namespaces both contain: $same" >&2
  exit 1
fi

if helm template demo "$chart" --set imagee.tag=v1 > "$rendered" 2>&1; then
  echo "helm accepted a misspelt value: values.schema.json does not reject it" >&2
  exit 1
fi
