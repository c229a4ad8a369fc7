package v1alpha1

import (
	"maps"
	"math"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nothing is the registration in a Lease to which no broker has written.
var nothing = Registration{CleanEpoch: -1, ProducerIDs: -1, Leaving: -1}

// complete has a value in each field.
var complete = Registration{Directory: "disk", FoundDirectory: "other", Endpoint: "host:9092",
	Peer: "10.0.0.7:9093", PeerTLS: true, CleanEpoch: 0, ProducerIDs: math.MaxInt64, Leaving: 7,
	Unreachable: "1:4,2:1", TransactionVersion: 2, Version: "1.2.3", FormatLevel: 3, Pod: "uid",
	Trust: "fingerprint", Volume: BrokerVolume{Pressure: "Reject", UsedPercent: 93,
		TotalBytes: 10 << 30, ReclaimableBytes: 5}, Scrub: `{"state":"Off"}`}

// TestRegistrationOnTheLease: each annotation has the text that earlier versions wrote.
func TestRegistrationOnTheLease(t *testing.T) {
	want := map[string]string{
		"heartwood.dev/directory-id":        "disk",
		"heartwood.dev/found-directory-id":  "other",
		"heartwood.dev/endpoint":            "host:9092",
		"heartwood.dev/peer":                "10.0.0.7:9093",
		"heartwood.dev/peer-tls":            "true",
		"heartwood.dev/clean-epoch":         "0",
		"heartwood.dev/producer-ids":        "9223372036854775807",
		"heartwood.dev/leaving":             "7",
		"heartwood.dev/unreachable":         "1:4,2:1",
		"heartwood.dev/transaction-version": "2",
		"heartwood.dev/version":             "1.2.3",
		"heartwood.dev/format-level":        "3",
		"heartwood.dev/pod-uid":             "uid",
		"heartwood.dev/trust":               "fingerprint",
		"heartwood.dev/volume": `{"pressure":"Reject","usedPercent":93,"totalBytes":10737418240,` +
			`"reclaimableBytes":5}`,
		"heartwood.dev/scrub": `{"state":"Off"}`,
	}
	lease := &metav1.ObjectMeta{}
	complete.Write(lease)
	if !maps.Equal(lease.Annotations, want) {
		t.Errorf("got annotations %v, want %v", lease.Annotations, want)
	}
	if got := ReadRegistration(lease); got != complete {
		t.Errorf("read %+v, want %+v", got, complete)
	}
	nothing.Write(lease)
	if len(lease.Annotations) > 0 {
		t.Errorf("an empty registration leaves %v", lease.Annotations)
	}
	if got := ReadRegistration(lease); got != nothing || got.SupportedLevel() != 1 ||
		got.MeasuredVolume() != nil || got.Leaves(0) {
		t.Errorf("without annotations: read %+v", got)
	}
	first := nothing
	first.ProducerIDs, first.FormatLevel = 0, 1
	if first.Write(lease); ReadRegistration(lease) != first || len(lease.Annotations) != 2 {
		t.Errorf("the first registration is %v", lease.Annotations)
	}
}

// TestInvalidRegistration: what cannot be read is absent, and what stands beside it is kept.
func TestInvalidRegistration(t *testing.T) {
	for name, texts := range map[string][]string{
		AnnotationCleanEpoch:         {"", "-1", "seven", "99999999999999999999"},
		AnnotationProducerIDs:        {"", "-7", "many", "1.5"},
		AnnotationLeaving:            {"", "-1", "true"},
		AnnotationTransactionVersion: {"", "-1", "two", "40000"},
		AnnotationFormatLevel:        {"", "-1", "x", "9999999999"},
		AnnotationPeerTLS:            {"", "false", "TRUE"},
		AnnotationVolume:             {"", "full", "{}", `{"usedPercent": 12}`, `{"pressure": 1}`},
	} {
		for _, text := range texts {
			lease := &metav1.ObjectMeta{Annotations: map[string]string{name: text}}
			if got := ReadRegistration(lease); got != nothing {
				t.Errorf("%s=%s: read %+v", name, text, got)
			}
			if complete.Write(lease); ReadRegistration(lease) != complete {
				t.Errorf("%s=%s: not replaced: %v", name, text, lease.Annotations)
			}
		}
	}
}

// TestWriteKeepsWhatItDoesNotChange: annotations of other writers, and values in the form of
// another version.
func TestWriteKeepsWhatItDoesNotChange(t *testing.T) {
	const volume = `{"pressure":"None","later":true}`
	lease := &metav1.ObjectMeta{Annotations: map[string]string{AnnotationRack: "east",
		AnnotationIsolated: "3", AnnotationVolumeConsent: "claim", AnnotationVolume: volume,
		AnnotationEndpointPrefix + "kafka": "host:1", AnnotationPod: "old"}}
	want := maps.Clone(lease.Annotations)
	want[AnnotationPod] = "new"
	registered := ReadRegistration(lease)
	registered.Pod = "new"
	if registered.Write(lease); !maps.Equal(lease.Annotations, want) {
		t.Errorf("got %v, want %v", lease.Annotations, want)
	}
}

func TestShutdownIsAnnouncedForOneEpoch(t *testing.T) {
	if !complete.Leaves(7) || complete.Leaves(8) {
		t.Error("an announced shutdown applies to its own broker epoch only")
	}
}
