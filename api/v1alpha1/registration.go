package v1alpha1

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// registrationAnnotation is the annotation of a broker's Lease that contains its Registration as
// JSON (docs/format/registration.md). Other files use Registration.
const registrationAnnotation = "heartwood.dev/registration"

// Registration is what a broker writes on its Lease besides the fields of the Lease itself. The
// fields that the operator writes there (the endpoints of listeners, the rack, the mark of an
// isolated broker, the consent to another volume) are annotations of their own. Registrations can
// be compared.
//
// The zero values of most fields mean that the Lease does not contain them.
// +kubebuilder:object:generate=false
type Registration struct {
	// Directory is the directory id of the broker's disk. A broker with a new disk has lost its
	// records; an election must not treat it as if it still had them.
	Directory string `json:"directory,omitempty"`
	// FoundDirectory is the directory id of a volume that the broker has found in place of the one
	// in Directory. The broker does not serve until AnnotationVolumeConsent permits it to use this
	// volume.
	FoundDirectory string `json:"foundDirectory,omitempty"`
	// Endpoint is the host:port of the broker's Kafka listener, as advertised to clients. It is not
	// verified.
	Endpoint string `json:"endpoint,omitempty"`
	// Peer is the host:port at which other brokers connect to the broker. The host is the IP of the
	// broker's pod, so that replication does not depend on DNS. Without it, other brokers use
	// Endpoint.
	Peer string `json:"peer,omitempty"`
	// PeerTLS is true if the broker serves mutual TLS at Peer, and TLS at its HTTP port. While it is
	// false for some broker, the others accept followers without TLS at this address too.
	PeerTLS bool `json:"peerTLS,omitempty"`
	// CleanEpoch is the broker epoch of the broker's previous process, if that process stopped
	// gracefully. The present process then has every record that the previous one had. It is -1
	// after an unclean stop.
	CleanEpoch int64 `json:"-"`
	// ProducerIDs is an upper bound of the producer ids that the broker has assigned, with this disk
	// or an earlier one; -1 if it is absent. A broker with a new disk assigns only ids above this
	// bound.
	ProducerIDs int64 `json:"-"`
	// Leaving is the broker epoch that has announced its controlled shutdown: it must not be elected
	// leader. In another broker epoch it has no effect. It is -1 if none has.
	Leaving int64 `json:"-"`
	// Unreachable contains the other brokers that the broker does not reach, such as "0:5,2:7": ids
	// and broker epochs. It is not verified.
	Unreachable string `json:"unreachable,omitempty"`
	// TransactionVersion is the highest transaction version (KIP-890) that the broker supports. The
	// cluster uses the highest version that all brokers support.
	TransactionVersion int16 `json:"transactionVersion,omitempty"`
	// Version is the version of Heartwood that the broker runs.
	Version string `json:"version,omitempty"`
	// FormatLevel is the highest format level that the broker supports; see SupportedLevel.
	FormatLevel int32 `json:"formatLevel,omitempty"`
	// Pod is the uid of the pod in which the broker runs. When this pod ends, the broker epoch has
	// ended.
	Pod string `json:"pod,omitempty"`
	// Trust is the TrustFingerprint of Secret BrokersTLSSecretName that the broker uses. A new CA of
	// brokers or users issues certificates only after all brokers have reported it.
	Trust string `json:"trust,omitempty"`
	// Volume is the broker's volume; without a Pressure, the broker has not measured it.
	Volume BrokerVolume `json:"volume,omitzero"`
	// Scrub is the BrokerScrub of the broker as text, so that registrations can be compared; see
	// ReadScrub.
	Scrub string `json:"-"`
}

// storedRegistration is a Registration as JSON: with a decoded Scrub, and with numbers that may be
// absent, of which 0 is a value.
// +kubebuilder:object:generate=false
type storedRegistration struct {
	Registration
	CleanEpoch  *int64       `json:"cleanEpoch,omitempty"`
	ProducerIDs *int64       `json:"producerIDs,omitempty"`
	Leaving     *int64       `json:"leaving,omitempty"`
	Scrub       *BrokerScrub `json:"scrub,omitempty"`
}

// ParseRegistration returns what a broker has written on its Lease. Fields of later versions are
// ignored. If the Lease contains nothing, or an error is returned, the registration is that of a
// broker that has not registered.
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
		r.TransactionVersion < 0 {
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

// ReadRegistration returns what a broker has written on its Lease. A broker whose registration is
// invalid has not registered: ParseRegistration returns the reason.
func ReadRegistration(lease metav1.Object) Registration {
	r, _ := ParseRegistration(lease)
	return r
}

// ChangeRegistration changes what a broker has written on its Lease.
func ChangeRegistration(lease metav1.Object, change func(*Registration)) {
	r := ReadRegistration(lease)
	change(&r)
	r.Write(lease)
}

// Write makes a Lease contain the registration. It does not change the annotations of other
// writers.
func (r Registration) Write(lease metav1.Object) {
	stored := storedRegistration{Registration: r, CleanEpoch: numberOrNil(r.CleanEpoch),
		ProducerIDs: numberOrNil(r.ProducerIDs), Leaving: numberOrNil(r.Leaving),
		Scrub: r.ReadScrub()}
	text, _ := json.Marshal(stored) // cannot fail: the fields are strings, numbers, flags and times
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

// SupportedLevel returns the highest format level that the broker supports. It is 1 for a broker
// whose Lease does not contain it, as of an earlier version.
func (r Registration) SupportedLevel() int32 { return max(1, r.FormatLevel) }

// MeasuredVolume returns the broker's volume, or nil if the Lease contains no valid one, as of a
// broker of an earlier version.
func (r Registration) MeasuredVolume() *BrokerVolume {
	if r.Volume.Pressure == "" {
		return nil
	}
	return &r.Volume
}
