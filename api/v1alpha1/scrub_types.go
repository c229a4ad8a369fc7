package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// Scrub configures how each broker re-reads everything that it keeps at rest, in order to find
// damage before a client reads it. Changes take effect immediately.
type Scrub struct {
	// Interval is the interval at which everything is checked: 1h to 8760h, or Never. Default
	// 168h.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == 'Never' || self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1h') && duration(self) <= duration('8760h')",message="write Never, or a duration of 1h to 8760h, such as 168h"
	Interval string `json:"interval,omitempty"`
	// Rate is the maximum rate of each broker's reads, in bytes per second, at least 1Ki. The reads
	// are slower while clients, the cleaner or a full volume need the disk. Default 20Mi.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Ki')) >= 0",message="write at least 1Ki bytes a second, such as 20Mi; interval: Never turns the scrub off"
	Rate *resource.Quantity `json:"rate,omitempty"`
	// VerifyReads determines when a broker verifies the checksum of a stored batch before it sends
	// the batch. Once: before the first read after the start of the broker, unless the scrub has
	// verified the batch or the broker has written it since its start. Always: before each read,
	// except reads of the active segment. Never: only in segments in which damage was found. A read
	// of a damaged batch fails, and the batch is repaired from another replica. Default Once.
	// +optional
	VerifyReads VerifyReads `json:"verifyReads,omitempty"`
}

// VerifyReads is a value of Scrub.VerifyReads.
// +kubebuilder:validation:Enum=Once;Always;Never
type VerifyReads string

// These are the values of Scrub.VerifyReads.
const (
	VerifyOnce   VerifyReads = "Once"
	VerifyAlways VerifyReads = "Always"
	VerifyNever  VerifyReads = "Never"
)

// ScrubNever is the value of Scrub.Interval that turns the scrub off.
const ScrubNever = "Never"
