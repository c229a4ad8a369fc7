package claims

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Claim is the volume claim of a broker that runs, or will run.
type Claim struct {
	Broker int32
	Name   string
	Class  string // name of its StorageClass; "" if it has none
	// Bound is true if the claim has a volume. Kubernetes lets only such claims grow.
	Bound     bool
	Requested resource.Quantity
	Capacity  resource.Quantity // of its volume; zero while it has none
	// FileSystemPending is true if the volume has grown, and its file system grows when a pod mounts
	// it (condition FileSystemResizePending). Many drivers let it grow while the pod runs.
	FileSystemPending bool
	// Replaced is true if the claim is to be replaced by one of another StorageClass.
	Replaced bool
	// ResizeError is the message of condition ControllerResizeError or NodeResizeError.
	ResizeError string
}

// Expansion is whether a StorageClass allows its volumes to grow.
type Expansion int

const (
	// Unknown means that the operator may not read the StorageClass. The API server knows it, and
	// refuses a growth that the class does not allow.
	Unknown Expansion = iota
	// Allowed means that allowVolumeExpansion is true.
	Allowed
	// Forbidden means that allowVolumeExpansion is not true, or that the class does not exist.
	Forbidden
)

// Growable reports whether the claim requests less than a size, and has a volume that can grow.
func (c Claim) Growable(size resource.Quantity) bool {
	return c.Bound && c.Requested.Cmp(size) < 0
}

// resizing reports whether the volume is smaller than the claim requests.
func (c Claim) resizing() bool { return c.Bound && c.Capacity.Cmp(c.Requested) < 0 }

// Refusal is why a claim was not grown.
type Refusal struct {
	ByClass bool   // its StorageClass does not allow it
	Message string // words of the API server; "" if the operator has not asked it
}
