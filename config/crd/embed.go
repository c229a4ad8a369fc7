// Package crd carries the CustomResourceDefinitions inside the binary, so that `heartwood dev`
// checks manifests by the very same rules as the API server. The YAML files are made from
// api/v1alpha1 by `make generate`.
package crd

import "embed"

// Files holds one CustomResourceDefinition a file, in YAML.
//
//go:embed *.yaml
var Files embed.FS
