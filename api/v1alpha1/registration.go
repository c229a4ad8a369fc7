package v1alpha1

import (
	"encoding/json"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations that a broker writes on its Lease. Other files use Registration.
const (
	// AnnotationDirectory, on a broker's Lease, is the directory id of the broker's disk. A broker
	// with a new disk has lost its records; an election must not treat it as if it still had them.
	AnnotationDirectory = "heartwood.dev/directory-id"
	// AnnotationEndpoint, on a broker's Lease, is the host:port of the broker's Kafka listener, as
	// advertised to clients.
	AnnotationEndpoint = "heartwood.dev/endpoint"
	// AnnotationPeer, on a broker's Lease, is the host:port at which other brokers connect to the
	// broker. The host is the IP of the broker's pod, so that replication does not depend on DNS.
	// Without this annotation, other brokers use AnnotationEndpoint.
	AnnotationPeer = "heartwood.dev/peer"
	// AnnotationPeerTLS, on a broker's Lease, is "true" if the broker serves mutual TLS at the
	// address in AnnotationPeer, and TLS at its HTTP port. While it is missing on some broker, as in
	// earlier versions, the others accept followers without TLS at this address too.
	AnnotationPeerTLS = "heartwood.dev/peer-tls"
	// AnnotationCleanEpoch, on a broker's Lease, is the broker epoch of the broker's previous
	// process, if that process stopped gracefully. The present process then has every record that
	// the previous one had. The annotation is absent after an unclean stop.
	AnnotationCleanEpoch = "heartwood.dev/clean-epoch"
	// AnnotationProducerIDs, on a broker's Lease, is an upper bound of the producer ids that the
	// broker has assigned, with this disk or an earlier one. A broker with a new disk assigns only
	// ids above this bound.
	AnnotationProducerIDs = "heartwood.dev/producer-ids"
	// AnnotationLeaving, on a broker's Lease, announces the controlled shutdown of the broker: it
	// must not be elected leader. The value is the broker epoch that shuts down; in another broker
	// epoch the annotation has no effect.
	AnnotationLeaving = "heartwood.dev/leaving"
	// AnnotationUnreachable, on a broker's Lease, contains the other brokers that the broker does
	// not reach, such as "0:5,2:7": ids and broker epochs. It is absent if there are none.
	AnnotationUnreachable = "heartwood.dev/unreachable"
	// AnnotationTransactionVersion, on a broker's Lease, is the highest transaction version
	// (KIP-890) that the broker supports. Without it the broker supports version 0 only. The
	// cluster uses the highest version that all brokers support.
	AnnotationTransactionVersion = "heartwood.dev/transaction-version"
	// AnnotationVersion, on a broker's Lease, is the version of Heartwood that the broker runs.
	AnnotationVersion = "heartwood.dev/version"
	// AnnotationFormatLevel, on a broker's Lease, is the highest format level that the broker
	// supports. Without it the broker supports level 1 only.
	AnnotationFormatLevel = "heartwood.dev/format-level"
	// AnnotationPod, on a broker's Lease, is the uid of the pod in which the broker runs. When this
	// pod ends, the broker epoch has ended.
	AnnotationPod = "heartwood.dev/pod-uid"
	// AnnotationTrust, on a broker's Lease, is the TrustFingerprint of Secret BrokersTLSSecretName
	// that the broker uses. A new CA of brokers or users issues certificates only after all brokers
	// have reported it.
	AnnotationTrust = "heartwood.dev/trust"
	// AnnotationFoundDirectory, on a broker's Lease, is the directory id of a volume that the broker
	// has found in place of the one in AnnotationDirectory. The broker does not serve until
	// AnnotationVolumeConsent permits it to use this volume.
	AnnotationFoundDirectory = "heartwood.dev/found-directory-id"
	// AnnotationVolume, on a broker's Lease, is the BrokerVolume of the broker as JSON.
	AnnotationVolume = "heartwood.dev/volume"
	// AnnotationScrub, on a broker's Lease, is the BrokerScrub of the broker as JSON.
	AnnotationScrub = "heartwood.dev/scrub"
)

// Registration is what a broker writes on its Lease besides the fields of the Lease itself. The
// fields that the operator writes there (the endpoints of listeners, the rack, the mark of an
// isolated broker, the consent to another volume) are not part of it. Registrations can be
// compared.
//
// The zero values of most fields mean that the Lease does not contain them, or no valid ones.
// +kubebuilder:object:generate=false
type Registration struct {
	// Directory and FoundDirectory are the directory ids of AnnotationDirectory and
	// AnnotationFoundDirectory.
	Directory, FoundDirectory string
	// Endpoint is the value of AnnotationEndpoint: host:port, not verified.
	Endpoint string
	// Peer is the value of AnnotationPeer; PeerTLS says whether the broker serves TLS there.
	Peer    string
	PeerTLS bool
	// CleanEpoch is the broker epoch of AnnotationCleanEpoch; -1 if it is absent or invalid.
	CleanEpoch int64
	// ProducerIDs is the bound of AnnotationProducerIDs; -1 if it is absent or invalid.
	ProducerIDs int64
	// Leaving is the broker epoch that has announced its controlled shutdown; -1 if none has.
	Leaving int64
	// Unreachable is the value of AnnotationUnreachable, not decoded.
	Unreachable string
	// TransactionVersion is the highest transaction version that the broker supports.
	TransactionVersion int16
	// Version is the version of Heartwood that the broker runs.
	Version string
	// FormatLevel is the highest format level that the broker supports; see SupportedLevel.
	FormatLevel int32
	// Pod is the uid of the pod in which the broker runs.
	Pod string
	// Trust is the value of AnnotationTrust.
	Trust string
	// Volume is the broker's volume; without a Pressure, the broker has not measured it.
	Volume BrokerVolume
	// Scrub is the value of AnnotationScrub, not decoded; see ReadScrub.
	Scrub string
}

// ReadRegistration returns what a broker has written on its Lease.
func ReadRegistration(lease metav1.Object) Registration {
	texts := lease.GetAnnotations()
	return Registration{
		Directory: texts[AnnotationDirectory], FoundDirectory: texts[AnnotationFoundDirectory],
		Endpoint: texts[AnnotationEndpoint],
		Peer:     texts[AnnotationPeer], PeerTLS: texts[AnnotationPeerTLS] == "true",
		CleanEpoch:         readNumber(texts[AnnotationCleanEpoch], 64, -1),
		ProducerIDs:        readNumber(texts[AnnotationProducerIDs], 64, -1),
		Leaving:            readNumber(texts[AnnotationLeaving], 64, -1),
		Unreachable:        texts[AnnotationUnreachable],
		TransactionVersion: int16(readNumber(texts[AnnotationTransactionVersion], 16, 0)),
		Version:            texts[AnnotationVersion],
		FormatLevel:        int32(readNumber(texts[AnnotationFormatLevel], 32, 0)),
		Pod:                texts[AnnotationPod],
		Trust:              texts[AnnotationTrust],
		Volume:             readVolume(texts[AnnotationVolume]),
		Scrub:              texts[AnnotationScrub],
	}
}

// Write makes a Lease contain the registration. It does not change the annotations of other
// writers, nor those whose values are already read as r has them: another version may write them
// in another form.
func (r Registration) Write(lease metav1.Object) {
	before, annotations := ReadRegistration(lease).texts(), lease.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	for name, text := range r.texts() {
		if text == before[name] {
			continue
		}
		if annotations[name] = text; text == "" {
			delete(annotations, name)
		}
	}
	lease.SetAnnotations(annotations)
}

// texts returns the values of all annotations of a registration; "" means that it is absent.
func (r Registration) texts() map[string]string {
	return map[string]string{
		AnnotationDirectory: r.Directory, AnnotationFoundDirectory: r.FoundDirectory,
		AnnotationEndpoint: r.Endpoint,
		AnnotationPeer:     r.Peer, AnnotationPeerTLS: flagText(r.PeerTLS),
		AnnotationCleanEpoch:         numberText(r.CleanEpoch, 0),
		AnnotationProducerIDs:        numberText(r.ProducerIDs, 0),
		AnnotationLeaving:            numberText(r.Leaving, 0),
		AnnotationUnreachable:        r.Unreachable,
		AnnotationTransactionVersion: numberText(int64(r.TransactionVersion), 1),
		AnnotationVersion:            r.Version,
		AnnotationFormatLevel:        numberText(int64(r.FormatLevel), 1),
		AnnotationPod:                r.Pod,
		AnnotationTrust:              r.Trust,
		AnnotationVolume:             volumeText(r.Volume),
		AnnotationScrub:              r.Scrub,
	}
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

// readNumber returns the number in a text, or absent if it contains no number, a negative one, or
// one that is too large for a signed number of that many bits.
func readNumber(text string, bits int, absent int64) int64 {
	number, err := strconv.ParseInt(text, 10, bits)
	if err != nil || number < 0 {
		return absent
	}
	return number
}

// numberText returns a number as text; "" for a number that means that it is absent, because it is
// less than least.
func numberText(number, least int64) string {
	if number < least {
		return ""
	}
	return strconv.FormatInt(number, 10)
}

func flagText(set bool) string {
	if !set {
		return ""
	}
	return "true"
}

func readVolume(text string) BrokerVolume {
	v := BrokerVolume{}
	if text == "" || json.Unmarshal([]byte(text), &v) != nil || v.Pressure == "" {
		return BrokerVolume{}
	}
	return v
}

func volumeText(v BrokerVolume) string {
	if v.Pressure == "" {
		return ""
	}
	text, _ := json.Marshal(v) // cannot fail: the fields are a string and numbers
	return string(text)
}
