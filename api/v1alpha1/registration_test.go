package v1alpha1

import (
	"maps"
	"math"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nothing is the registration in a Lease that contains none.
var nothing = Registration{CleanEpoch: -1, ProducerIDs: -1, Leaving: -1}

// complete has a value in each field.
var complete = Registration{Directory: "disk", FoundDirectory: "other", Endpoint: "host:9092",
	Peer: "10.0.0.7:9093", PeerTLS: true, CleanEpoch: 0, BootEpoch: 5, ProducerIDs: math.MaxInt64, Leaving: 7,
	Unreachable: "1:4,2:1", TransactionVersion: 2, Version: "1.2.3", FormatLevel: 3, Pod: "uid",
	Trust: "fingerprint", Volume: BrokerVolume{Pressure: "Reject", UsedPercent: 93,
		TotalBytes: 10 << 30, ReclaimableBytes: 5}, Scrub: `{"state":"Off"}`}

// TestRegistrationOnTheLease checks that the annotation has the format of
// docs/internals/format/registration.md.
func TestRegistrationOnTheLease(t *testing.T) {
	const want = `{"directory":"disk","foundDirectory":"other","endpoint":"host:9092",` +
		`"peer":"10.0.0.7:9093","peerTLS":true,"bootEpoch":5,"unreachable":"1:4,2:1","transactionVersion":2,` +
		`"version":"1.2.3","formatLevel":3,"pod":"uid","trust":"fingerprint",` +
		`"volume":{"pressure":"Reject","usedPercent":93,"totalBytes":10737418240,` +
		`"reclaimableBytes":5},"cleanEpoch":0,"producerIDs":9223372036854775807,"leaving":7,` +
		`"scrub":{"state":"Off"}}`
	lease := &metav1.ObjectMeta{}
	complete.Write(lease)
	if got := lease.Annotations["heartwood.dev/registration"]; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, err := ParseRegistration(lease); got != complete || err != nil {
		t.Errorf("read %+v, %v, want %+v", got, err, complete)
	}
	nothing.Write(lease)
	if got := lease.Annotations[registrationAnnotation]; got != "{}" {
		t.Errorf("an empty registration is %s", got)
	}
	first := nothing
	first.ProducerIDs, first.FormatLevel = 0, 1
	if first.Write(lease); ReadRegistration(lease) != first {
		t.Errorf("the first registration is %v", lease.Annotations)
	}
}

// TestUnregistered checks that a missing registration, or an empty one in JSON, counts as not
// registered and causes no error.
func TestUnregistered(t *testing.T) {
	for _, annotations := range []map[string]string{nil, {AnnotationRack: "east"},
		{registrationAnnotation: "{}"}, {registrationAnnotation: "null"},
		{registrationAnnotation: `{"volume":{"usedPercent":12}}`}} {
		got, err := ParseRegistration(&metav1.ObjectMeta{Annotations: annotations})
		if got != nothing || err != nil {
			t.Errorf("%v: read %+v, %v, want no registration and no error", annotations, got, err)
		}
		if level := got.SupportedLevel(); level != 1 {
			t.Errorf("%v: supports format level %d, want 1", annotations, level)
		}
		if volume := got.MeasuredVolume(); volume != nil {
			t.Errorf("%v: measured volume %+v, want none", annotations, volume)
		}
		if got.Leaves(0) {
			t.Errorf("%v: the broker leaves", annotations)
		}
	}
}

// TestInvalidRegistration checks that an invalid registration counts as not registered, that the
// error names the Lease, and that the next registration replaces the invalid one.
func TestInvalidRegistration(t *testing.T) {
	for _, text := range []string{"", "{", "[]", "true", `"text"`, `{"directory":"a"} {}`,
		`{"directory":7}`, `{"directory":"a","leaving":"true"}`, `{"cleanEpoch":-2}`, `{"bootEpoch":-1}`,
		`{"cleanEpoch":99999999999999999999}`, `{"producerIDs":-7}`, `{"producerIDs":1.5}`,
		`{"transactionVersion":40000}`, `{"transactionVersion":-1}`, `{"formatLevel":-1}`,
		`{"peerTLS":"true"}`, `{"volume":"full"}`, `{"volume":{"pressure":1}}`, `{"scrub":"Off"}`} {
		lease := &metav1.ObjectMeta{Name: "demo-broker-0",
			Annotations: map[string]string{registrationAnnotation: text}}
		got, err := ParseRegistration(lease)
		if got != nothing || err == nil || !strings.Contains(err.Error(), "lease demo-broker-0") {
			t.Errorf("%s: read %+v, %v", text, got, err)
		}
		if got := ReadRegistration(lease); got != nothing {
			t.Errorf("%s: read %+v", text, got)
		}
		if complete.Write(lease); ReadRegistration(lease) != complete {
			t.Errorf("%s: not replaced: %v", text, lease.Annotations)
		}
	}
}

// TestFieldsOfLaterVersionsAreIgnored checks that a broker reads the known fields of a later
// version's registration, after an update was reverted.
func TestFieldsOfLaterVersionsAreIgnored(t *testing.T) {
	lease := &metav1.ObjectMeta{Annotations: map[string]string{registrationAnnotation: `{"later":[1],
		"pod":"uid","volume":{"pressure":"None","later":true}}`}}
	want := nothing
	want.Pod, want.Volume.Pressure = "uid", "None"
	if got, err := ParseRegistration(lease); got != want || err != nil {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
}

// TestWriteKeepsOtherAnnotations checks that Write changes only the annotation of the registration.
func TestWriteKeepsOtherAnnotations(t *testing.T) {
	others := map[string]string{AnnotationRack: "east", AnnotationIsolated: "3",
		AnnotationVolumeConsent: "claim", AnnotationEndpointPrefix + "kafka": "host:1"}
	lease := &metav1.ObjectMeta{Annotations: maps.Clone(others)}
	complete.Write(lease)
	ChangeRegistration(lease, func(r *Registration) { r.Pod = "new" })
	want := complete
	want.Pod = "new"
	if got := ReadRegistration(lease); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if delete(lease.Annotations, registrationAnnotation); !maps.Equal(lease.Annotations, others) {
		t.Errorf("got annotations %v, want %v", lease.Annotations, others)
	}
}

// FuzzParseRegistration checks that any content of the annotation results in an error, or in a
// registration that can be written and read again.
func FuzzParseRegistration(f *testing.F) {
	f.Add(`{"directory":"a","cleanEpoch":3}`)
	f.Add(`{"volume":{"pressure":"\xff"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		lease := &metav1.ObjectMeta{Annotations: map[string]string{registrationAnnotation: text}}
		read, err := ParseRegistration(lease)
		if err != nil && read != nothing {
			t.Fatalf("both %+v and error %v", read, err)
		}
		read.Write(lease)
		if again, err := ParseRegistration(lease); again != read || err != nil {
			t.Fatalf("read %+v, then %+v, %v", read, again, err)
		}
	})
}

func TestShutdownIsAnnouncedForOneEpoch(t *testing.T) {
	if !complete.Leaves(7) || complete.Leaves(8) {
		t.Error("an announced shutdown applies to its own broker epoch only")
	}
}
