#!/usr/bin/env bash
# Operator Framework's validator warns of APIs that Kubernetes 1.25 removed, such as
# PodDisruptionBudget in policy/v1beta1. One would guess that an operator that uses policy/v1 gets no
# warning. It does as soon as a role names poddisruptionbudgets: a rule of RBAC has no version. The
# warning goes away when the ClusterServiceVersion lists the kind among the resources of one of its
# own CustomResourceDefinitions, in whatever version that is served.
#
# Versions: github.com/operator-framework/api v0.36.0
# Source: reference of ClusterServiceVersion, where resources are a hint for consoles; behaviour seen
# Product: hack/bundle lists the kinds; its test accepts no such warning.
. "$(dirname "$0")/lib.bash"

mkdir -p "$work/bundle/manifests" "$work/bundle/metadata"
cat > "$work/bundle/metadata/annotations.yaml" <<'Y'
annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: finding
  operators.operatorframework.io.bundle.channels.v1: alpha
Y
cat > "$work/bundle/manifests/crd.yaml" <<'Y'
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, listKind: ThingList, plural: things, singular: thing}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
Y

# csv RESOURCES writes a ClusterServiceVersion with a role for poddisruptionbudgets.
csv() {
  cat > "$work/bundle/manifests/csv.yaml" <<Y
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata: {name: finding.v0.1.0}
spec:
  version: 0.1.0
  minKubeVersion: 1.29.0
  customresourcedefinitions:
    owned: [{name: things.example.com, kind: Thing, version: v1, resources: [$1]}]
  install:
    strategy: deployment
    spec:
      permissions:
      - serviceAccountName: finding
        rules: [{apiGroups: [policy], resources: [poddisruptionbudgets], verbs: [get]}]
Y
}
cat > "$work/main.go" <<'GO'
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
)

func main() {
	bundle, err := manifests.GetBundleFromDir(os.Args[1])
	if err != nil {
		panic(err)
	}
	count := 0
	for _, result := range validation.OperatorHubV2Validator.Validate(bundle.ObjectsToValidate()...) {
		for _, finding := range append(result.Errors, result.Warnings...) {
			if strings.Contains(finding.Error(), "removed in v1.25") {
				count++
			}
		}
	}
	fmt.Println(count)
}
GO
cd "$work"
go mod init finding 2> go.log
go get github.com/operator-framework/api@v0.36.0 2>> go.log
go mod tidy 2>> go.log
go build -o validate . 2>> go.log
csv ""
same "warnings for a role with policy/poddisruptionbudgets" "$(./validate bundle)" 1
csv "{kind: PodDisruptionBudget, version: policy/v1}"
same "warnings when a CRD lists PodDisruptionBudget in policy/v1" "$(./validate bundle)" 0
