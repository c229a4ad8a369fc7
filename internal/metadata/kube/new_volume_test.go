package kube

import (
	"errors"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// testNewVolume checks that a broker registers at its first start, and later with the same volume.
// With another volume it must register only after the operator has given consent to that volume.
func testNewVolume(f *fixture) {
	registered := func(b *broker, directory string, epoch int64) {
		f.t.Helper()
		b.until("registered with "+directory, func(image *metadata.Image) bool {
			self, ok := image.Broker(0)
			return ok && self.Directory == directory && self.Epoch == epoch
		})
		if err := b.WaitsFor(); err != nil {
			f.t.Errorf("registered broker waits: %v", err)
		}
	}
	run := func(directory string) *broker {
		return f.runAs(metadata.Broker{ID: 0, Directory: directory, CleanEpoch: -1,
			Endpoints: metadata.Endpoints("kafka://demo-broker-0:9092")}, f.config)
	}
	lease := func() *coordinationv1.Lease {
		lease := &coordinationv1.Lease{}
		f.get(v1alpha1.BrokerLeaseName("demo", 0), lease)
		return lease
	}
	// waits checks that a broker has reported a volume, and has not registered.
	waits := func(b *broker, found string) {
		f.t.Helper()
		await.Until(f.t, "volume reported", func() bool {
			return v1alpha1.ReadRegistration(lease()).FoundDirectory == found
		})
		if got := v1alpha1.ReadRegistration(lease()).Directory; got != "first" {
			f.t.Errorf("registered with directory %s", got)
		}
		await.Until(f.t, "broker waits", func() bool {
			err := b.WaitsFor()
			return errors.Is(err, errNewVolume) && strings.Contains(err.Error(), "VolumeLost")
		})
	}
	b := run("first")
	registered(b, "first", 1)
	b.stop()

	b = run("second")
	waits(b, "second")
	f.permit(v1alpha1.VolumeConsent{Claim: "claim", Directory: "other"})
	waits(b, "second")
	b.stop()
	b = run("third") // replaced again; the consent for the second volume does not permit the third
	f.permit(v1alpha1.VolumeConsent{Claim: "claim", Directory: "second"})
	waits(b, "third")
	b.stop()

	// The first volume is restored. The broker needs no consent, and removes the consent to the second
	// volume.
	b = run("first")
	registered(b, "first", 2)
	if got := v1alpha1.ReadRegistration(lease()).FoundDirectory; got != "" {
		f.t.Errorf("the lease still contains the found directory %q", got)
	}
	if got := v1alpha1.LeaseVolumeConsent(lease()); got != (v1alpha1.VolumeConsent{}) {
		f.t.Errorf("the lease still contains the consent %q", got)
	}
	b.stop()

	b = run("second")
	waits(b, "second")
	f.permit(v1alpha1.VolumeConsent{Claim: "claim", Directory: "second"})
	registered(b, "second", 3)
	// The consent is kept together with the directory that it permits, because it names the lost
	// volume's claim.
	if got := v1alpha1.LeaseReplacedClaim(lease()); got != "claim" {
		f.t.Errorf("replaced claim %q, want claim", got)
	}
}

// permit writes a consent into broker 0's Lease, as the operator would.
func (f *fixture) permit(consent v1alpha1.VolumeConsent) {
	f.t.Helper()
	await.Until(f.t, "consent written", func() bool {
		lease := &coordinationv1.Lease{}
		f.get(v1alpha1.BrokerLeaseName("demo", 0), lease)
		lease.Annotations[v1alpha1.AnnotationVolumeConsent] = consent.String()
		// Try again if the broker has written the Lease in between.
		return f.client.Update(f.t.Context(), lease) == nil
	})
}
