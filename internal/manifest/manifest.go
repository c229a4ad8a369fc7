package manifest

import (
	"heartwood.dev/heartwood/api/v1alpha1"
)

// Set is what a folder of manifests says.
type Set struct {
	Cluster *v1alpha1.LogCluster // at most one
	Topics  []*v1alpha1.Topic    // sorted by name
}

// Error is one fault of one manifest. Error() begins with the field path, then says what the API server would say, then where.
type Error struct {
	File     string
	Resource string // Kind/name
	Message  string // as the API server gives it: "spec.compression.level: Invalid value: 30: ..."
}

func (e *Error) Error() string { panic("unwritten") }

// Load reads files and folders (*.yaml, *.yml, *.json; several documents a file), applies the CRDs' defaults and checks
// every object as the API server would: unknown fields, schema, CEL rules. Other kinds are skipped. All faults come
// joined (errors.Join), each an *Error.
func Load(paths []string) (*Set, error) { panic("unwritten") }

// CheckUpdate checks what old may not become (transition rules), as the API server would.
func CheckUpdate(old, updated *v1alpha1.Topic) error { panic("unwritten") }
