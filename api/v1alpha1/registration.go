package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// registrationAnnotation is the annotation on a broker's Lease that contains the broker's
// Registration as JSON (docs/internals/format/registration.md). Other files must use Registration.
const registrationAnnotation = "heartwood.dev/registration"

// Registration is the data that a broker writes to its Lease, in addition to the Lease's own
// fields. The operator writes separate annotations: the endpoints of listeners, the rack, the mark
// of an isolated broker, and the consent to another volume. Registrations can be compared with ==.
//
// In most fields, the zero value means that the Lease does not contain the field.
// +kubebuilder:object:generate=false
type Registration struct {
	// Directory is the directory id of the broker's disk. A broker with a new disk has lost its
	// records, so an election must not assume that the broker still has them.
	Directory string `json:"directory,omitempty"`
	// FoundDirectory is the directory id of a volume that the broker has found instead of the volume
	// with id Directory. The broker does not serve until AnnotationVolumeConsent permits it to use
	// this volume.
	FoundDirectory string `json:"foundDirectory,omitempty"`
	// Endpoint is the host:port of the broker's Kafka listener, as advertised to clients. The value is
	// not validated.
	Endpoint string `json:"endpoint,omitempty"`
	// Peer is the host:port at which other brokers connect to the broker. The host is the IP address
	// of the broker's pod, which makes replication independent of DNS. If Peer is empty, other brokers
	// use Endpoint.
	Peer string `json:"peer,omitempty"`
	// PeerTLS is true if the broker serves mutual TLS at Peer, and TLS at its HTTP port. While it is
	// false for any broker, the other brokers also accept followers without TLS at this address.
	PeerTLS bool `json:"peerTLS,omitempty"`
	// CleanEpoch is the broker epoch of the broker's previous process, if that process stopped
	// gracefully. The current process then has every record of the previous one. It is -1 after an
	// unclean stop.
	CleanEpoch int64 `json:"-"`
	// BootEpoch is the broker epoch of the first process on the disk since the broker's machine has
	// booted. The disk has all that this process and later ones have written, even if they were
	// killed. It is 0 if unknown.
	BootEpoch int64 `json:"bootEpoch,omitempty"`
	// ProducerIDs is an upper bound on the producer ids that the broker has assigned, with this disk
	// or an earlier one; -1 if absent. A broker with a new disk assigns only ids above this bound.
	ProducerIDs int64 `json:"-"`
	// Leaving is the broker epoch that has announced its controlled shutdown and must not be elected
	// leader; -1 if there is none. It has no effect on other broker epochs.
	Leaving int64 `json:"-"`
	// Unreachable contains the ids and broker epochs of the brokers that this broker cannot reach,
	// such as "0:5,2:7". The value is not validated.
	Unreachable string `json:"unreachable,omitempty"`
	// TransactionVersion is the highest transaction version (KIP-890) that the broker supports. The
	// cluster uses the highest version that all brokers support.
	TransactionVersion int16 `json:"transactionVersion,omitempty"`
	// Version is the Heartwood version that the broker runs.
	Version string `json:"version,omitempty"`
	// FormatLevel is the highest format level that the broker supports; see SupportedLevel.
	FormatLevel int32 `json:"formatLevel,omitempty"`
	// Pod is the uid of the broker's pod. When this pod ends, the broker epoch has ended.
	Pod string `json:"pod,omitempty"`
	// Trust is the TrustFingerprint of the Secret BrokersTLSSecretName that the broker uses. A new CA
	// for brokers or users issues certificates only after all brokers have reported the fingerprint
	// that includes it.
	Trust string `json:"trust,omitempty"`
	// Volume is the broker's volume. If it has no Pressure, the broker has not measured it.
	Volume BrokerVolume `json:"volume,omitzero"`
	// Scrub is the broker's BrokerScrub as text, which keeps registrations comparable; see ReadScrub.
	Scrub string `json:"-"`
}

// storedRegistration is the JSON form of a Registration. Scrub is decoded, and the numbers for
// which 0 is a valid value are pointers.
// +kubebuilder:object:generate=false
type storedRegistration struct {
	Registration
	CleanEpoch  *int64       `json:"cleanEpoch,omitempty"`
	ProducerIDs *int64       `json:"producerIDs,omitempty"`
	Leaving     *int64       `json:"leaving,omitempty"`
	Scrub       *BrokerScrub `json:"scrub,omitempty"`
}

// ParseRegistration returns the registration in a broker's Lease. It ignores fields of later
// versions. If the Lease contains no registration, or if ParseRegistration returns an error, the
// result equals the registration of a broker that has not registered.
func ParseRegistration(lease metav1.Object) (Registration, error) {
	none := Registration{CleanEpoch: -1, ProducerIDs: -1, Leaving: -1}
	text, found := lease.GetAnnotations()[registrationAnnotation]
	if !found {
		return none, nil
	}
	stored := storedRegistration{}
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return none, fmt.Errorf("parse annotation %s of lease %s: %w", registrationAnnotation,
			lease.GetName(), err)
	}
	r := stored.Registration
	r.CleanEpoch, r.ProducerIDs, r.Leaving = ptr.Deref(stored.CleanEpoch, -1),
		ptr.Deref(stored.ProducerIDs, -1), ptr.Deref(stored.Leaving, -1)
	if min(r.CleanEpoch, r.ProducerIDs, r.Leaving) < -1 || r.FormatLevel < 0 ||
		r.TransactionVersion < 0 || r.BootEpoch < 0 {
		return none, fmt.Errorf("parse annotation %s of lease %s: a number is negative",
			registrationAnnotation, lease.GetName())
	}
	if r.Volume.Pressure == "" {
		r.Volume = BrokerVolume{}
	}
	if stored.Scrub != nil && stored.Scrub.State != "" {
		r.Scrub = stored.Scrub.Text()
	}
	return r, nil
}

// ReadRegistration returns the registration in a broker's Lease. An invalid registration counts as
// none; ParseRegistration returns the reason.
func ReadRegistration(lease metav1.Object) Registration {
	r, _ := ParseRegistration(lease)
	return r
}

// ChangeRegistration changes the registration in a broker's Lease.
func ChangeRegistration(lease metav1.Object, change func(*Registration)) {
	r := ReadRegistration(lease)
	change(&r)
	r.Write(lease)
}

// Write stores the registration in a Lease. It does not change other writers' annotations.
func (r Registration) Write(lease metav1.Object) {
	stored := storedRegistration{Registration: r, CleanEpoch: numberOrNil(r.CleanEpoch),
		ProducerIDs: numberOrNil(r.ProducerIDs), Leaving: numberOrNil(r.Leaving),
		Scrub: r.ReadScrub()}
	text, _ := json.Marshal(stored) // cannot fail with these field types
	annotations := lease.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[registrationAnnotation] = string(text)
	lease.SetAnnotations(annotations)
}

func numberOrNil(number int64) *int64 {
	if number < 0 {
		return nil
	}
	return &number
}

// Leaves reports whether the broker has announced its controlled shutdown in the given broker
// epoch.
func (r Registration) Leaves(epoch int64) bool { return r.Leaving == epoch }

// SupportedLevel returns the highest format level that the broker supports. It is at
// least 1, also if the Lease contains no level.
func (r Registration) SupportedLevel() int32 { return max(1, r.FormatLevel) }

// MeasuredVolume returns the broker's volume, or nil if the Lease contains no valid volume, for
// example before the broker has measured it.
func (r Registration) MeasuredVolume() *BrokerVolume {
	if r.Volume.Pressure == "" {
		return nil
	}
	return &r.Volume
}
