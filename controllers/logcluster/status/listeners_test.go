package status

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestStatusFollowsLeases checks that each change of a Lease that affects the status triggers a
// reconciliation. A renewal, a report about other brokers, or another notation of the same volume
// must not trigger one.
func TestStatusFollowsLeases(t *testing.T) {
	registers := func(change func(*v1alpha1.Registration)) func(*coordinationv1.Lease) {
		return func(lease *coordinationv1.Lease) {
			v1alpha1.ChangeRegistration(lease, change)
		}
	}
	annotates := func(name, value string) func(*coordinationv1.Lease) {
		return func(lease *coordinationv1.Lease) {
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, name, value)
		}
	}
	for name, test := range map[string]struct {
		change func(*coordinationv1.Lease)
		want   bool
	}{
		"renewal":  {func(*coordinationv1.Lease) {}, false},
		"endpoint": {annotates(v1alpha1.AnnotationEndpointPrefix+"kafka", "a"), true},
		"rack":     {annotates(v1alpha1.AnnotationRack, "a"), true},
		"other":    {annotates("example.com/other", "a"), false},
		"volume": {registers(func(r *v1alpha1.Registration) {
			r.Volume.UsedPercent++
		}), true},
		"no volume": {registers(func(r *v1alpha1.Registration) {
			r.Volume = v1alpha1.BrokerVolume{}
		}), true},
		"notation": {func(lease *coordinationv1.Lease) {
			for name, value := range lease.Annotations {
				lease.Annotations[name] = " " + value
			}
		}, false},
		"version":      {registers(func(r *v1alpha1.Registration) { r.Version = "2" }), true},
		"format level": {registers(func(r *v1alpha1.Registration) { r.FormatLevel = 2 }), true},
		"unreachable":  {registers(func(r *v1alpha1.Registration) { r.Unreachable = "1:4" }), false},
		"leaving":      {registers(func(r *v1alpha1.Registration) { r.Leaving = 4 }), false},
	} {
		before := &coordinationv1.Lease{}
		v1alpha1.Registration{Volume: v1alpha1.BrokerVolume{Pressure: "None"}}.Write(before)
		after := before.DeepCopy()
		after.Spec.RenewTime = new(metav1.NowMicro())
		test.change(after)
		if got := leaseChanged.Update(event.UpdateEvent{ObjectOld: before,
			ObjectNew: after}); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}
