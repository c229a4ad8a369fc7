package v1alpha1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLeaseVolumeLost(t *testing.T) {
	for _, test := range []struct {
		registered, consent, directory string
		lost                           bool
	}{
		{"", "", "a", false}, // first start
		{"a", "", "a", false},
		{"a", "", "b", true},
		{"a", "claim", "b", true}, // the operator has not observed b yet
		{"a", "claim b", "b", false},
		{"a", "claim b", "c", true},
		{"a", "claim a", "b", true}, // b is not the consented volume a
	} {
		lease := &metav1.ObjectMeta{Annotations: map[string]string{
			AnnotationVolumeConsent: test.consent}}
		Registration{Directory: test.registered}.Write(lease)
		if got := LeaseVolumeLost(lease, test.directory); got != test.lost {
			t.Errorf("%+v: got %v", test, got)
		}
	}
}

func TestVolumeConsentRoundTrip(t *testing.T) {
	for _, consent := range []VolumeConsent{{}, {Claim: "claim"}, {Claim: "claim", Directory: "d"}} {
		if got := ParseVolumeConsent(consent.String()); got != consent {
			t.Errorf("%+v became %+v", consent, got)
		}
	}
}

func TestReplacedClaimIsThatOfThePresentDirectory(t *testing.T) {
	for consent, want := range map[string]string{"": "", "claim": "", "claim a": "claim",
		"claim b": ""} {
		lease := &metav1.ObjectMeta{Annotations: map[string]string{AnnotationVolumeConsent: consent}}
		Registration{Directory: "a"}.Write(lease)
		if got := LeaseReplacedClaim(lease); got != want {
			t.Errorf("consent %q: got %q, want %q", consent, got, want)
		}
	}
}
