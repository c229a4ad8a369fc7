package claims

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Claim is the volume claim of a broker that is running or will run.
type Claim struct {
	Broker int32
	Name   string
	Class  string // name of the StorageClass; "" if the claim has none
	// Bound is true if the claim has a volume. Kubernetes expands only claims with a volume.
	Bound     bool
	Requested resource.Quantity
	Capacity  resource.Quantity // capacity of the claim's volume; zero while it has none
	// Asked is the size that the operator requested last; nil if the operator has not changed the
	// request.
	Asked *resource.Quantity
	// FileSystemPending is true if the volume has grown, but its file system grows only when a pod
	// mounts it (condition FileSystemResizePending). With many drivers, the file system also grows
	// while the pod is running.
	FileSystemPending bool
	// Replaced is true if a claim with another StorageClass will replace this claim.
	Replaced bool
	// ResizeError is the message of condition ControllerResizeError or NodeResizeError, or states that
	// the driver has stopped trying.
	ResizeError string
}

// Expansion states whether a StorageClass allows the expansion of its volumes.
type Expansion int

const (
	// Unknown means that the operator has no permission to read the StorageClass. The API server
	// rejects an expansion that the class does not allow.
	Unknown Expansion = iota
	// Allowed means that allowVolumeExpansion is true.
	Allowed
	// Forbidden means that allowVolumeExpansion is not true, or that the class does not exist.
	Forbidden
)

// step is the minimum amount by which a reduced request must exceed the capacity. Kubernetes
// accepts a lower request only if it is above the capacity, and drivers round up to their own unit.
var step = resource.MustParse("1Mi")

// Next returns the size that the operator must request. It returns false if the request must not
// change.
//
//   - A volume that is too small is expanded, unless the operator has requested this size before.
//     In
//     that case, a user has since lowered the request to recover from a failed expansion.
//   - If the size is lowered, an expansion that the operator has requested is withdrawn, provided
//     that
//     it has not happened yet. A request that a user has raised is kept.
func (c Claim) Next(size resource.Quantity) (resource.Quantity, bool) {
	switch {
	case !c.Bound:
		return resource.Quantity{}, false // Kubernetes changes only claims with a volume
	case c.Requested.Cmp(size) < 0:
		return size, !c.lowered(size)
	case c.Requested.Cmp(size) == 0 || !c.resizing() || !c.ours() || c.Capacity.IsZero():
		return resource.Quantity{}, false
	}
	next := c.Capacity.DeepCopy()
	next.Add(step)
	if size.Cmp(next) > 0 {
		next = size
	}
	return next, next.Cmp(c.Requested) < 0
}

// ours reports whether the current request was made by the operator, or by a user who has lowered
// the operator's request.
func (c Claim) ours() bool { return c.Asked != nil && c.Asked.Cmp(c.Requested) >= 0 }

// asked reports whether the operator requested this size last.
func (c Claim) asked(size resource.Quantity) bool {
	return c.Asked != nil && c.Asked.Cmp(size) == 0
}

// lowered reports whether a user has lowered the request below a size that the operator has
// requested.
func (c Claim) lowered(size resource.Quantity) bool {
	return c.Requested.Cmp(size) < 0 && c.asked(size)
}

// resizing reports whether the volume is smaller than the claim requests.
func (c Claim) resizing() bool { return c.Bound && c.Capacity.Cmp(c.Requested) < 0 }

// withdrawn reports whether the operator withdraws an expansion beyond size that it has requested
// and that has not enlarged the volume yet.
func (c Claim) withdrawn(size resource.Quantity) bool {
	return c.resizing() && c.Requested.Cmp(size) > 0 && c.Capacity.Cmp(size) <= 0 && c.ours()
}

// Refusal is the reason why a claim's request was not changed.
type Refusal struct {
	ByClass bool   // true if the StorageClass does not allow the change
	Message string // message of the API server; "" if no request was sent
}
