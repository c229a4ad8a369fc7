#!/usr/bin/env bash
# pack-chart.sh VERSION DIRECTORY: writes the chart heartwood-NUMBER.tgz of a version, such as
# v0.1.0, and install.yaml, the chart with its default values for kubectl apply. The same commit
# gives the same bytes: helm package writes the time into its archive, so the files are packed
# again.
set -euo pipefail
number=${1#v} out=$(realpath "$2")
cd "$(dirname "$0")/.."
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
helm() { go tool -modfile=hack/tools/helm/go.mod helm "$@"; }

chart=$out/heartwood-$number.tgz
helm package charts/heartwood --version "$number" --app-version "$number" \
  --destination "$temporary/packed" > /dev/null
tar -C "$temporary" -xzf "$temporary/packed/heartwood-$number.tgz"
tar -C "$temporary" --sort=name --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner \
  --mode=u+rw,go=rX -cf - heartwood | gzip -n -9 > "$chart"
helm lint --strict --quiet "$chart"
namespace=heartwood-system
{
  printf 'apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n' "$namespace"
  helm template heartwood "$chart" --namespace "$namespace"
} > "$out/install.yaml"
go run ./hack/chartcheck -crds config/crd -kinds "ClusterRole,ClusterRoleBinding,ConfigMap,\
CustomResourceDefinition,Deployment,Namespace,PodDisruptionBudget,Role,RoleBinding,Service,\
ServiceAccount,ValidatingAdmissionPolicy,ValidatingAdmissionPolicyBinding" < "$out/install.yaml"
