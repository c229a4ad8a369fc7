// Package crd embeds the CustomResourceDefinitions, so that `heartwood dev` validates manifests by
// the same rules as the API server. `make generate` generates the YAML files from api/v1alpha1.
package crd

import "embed"

// Files contains one YAML file per CustomResourceDefinition.
//
//go:embed *.yaml
var Files embed.FS
