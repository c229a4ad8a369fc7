// Package crd embeds the CustomResourceDefinitions, so that `heartwood dev` validates manifests by
// the same rules as the API server. `make generate` generates the YAML files from api/v1alpha1.
package crd

import "embed"

// Files has one CustomResourceDefinition per file, in YAML.
//
//go:embed *.yaml
var Files embed.FS
