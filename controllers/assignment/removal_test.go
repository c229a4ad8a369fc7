package assignment

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/reports"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// filled returns a LogCluster with five brokers. Their disks of 1000 bytes are filled to the given
// percentage by a Topic with ten partitions and two replicas.
func filled(percent int64) (*world, *v1alpha1.Topic) {
	w := newWorld(5, 2)
	w.in.cluster.Spec.Storage.Size = resource.MustParse("1000")
	topic := w.topic("orders", 10, 2)
	w.pass()
	rows := []report.Partition{}
	for key, entry := range w.in.sets.All() {
		w.inSync(key)
		for i, id := range entry.Assignment.Replicas {
			rows = append(rows, report.Partition{Broker: id, Topic: "orders",
				Partition: key.Index, Leader: i == 0, SizeBytes: percent * 10 / 4})
		}
	}
	w.in.disks = newDisks(&reports.Cluster{Rows: map[string][]report.Partition{"orders": rows}})
	return w, topic
}

// inSync makes all replicas of a partition in sync.
func (w *world) inSync(key partitionset.Key) {
	set, _ := w.in.sets.Of(key)
	entry, _ := set.Get(key)
	p := placement.Partition{Replicas: entry.Assignment.Replicas,
		Leader: entry.Assignment.Replicas[0], LeaderEpoch: 1, ReplicaIncarnations: map[int32]string{}}
	for _, id := range p.Replicas {
		p.ReplicaIncarnations[id] = "i"
		p.ISR = append(p.ISR, placement.InSyncReplica{Broker: id, Epoch: 1})
	}
	set.PutState(key, partitionset.State{Serving: true, Partition: p})
}

// on returns the number of replicas that are assigned to brokers with the id first or a higher id.
func (w *world) on(first int32) (count int) {
	for _, entry := range w.in.sets.All() {
		for _, id := range entry.Assignment.Replicas {
			if id >= first {
				count++
			}
		}
	}
	return count
}

func TestBrokersStayIfTheirReplicasWouldFillDisks(t *testing.T) {
	w, _ := filled(60)
	before := w.texts()
	w.in.cluster.Spec.Brokers = 3
	p := w.pass()
	w.expect(t, before)
	if p.removal.Reason != v1alpha1.ReasonDisksDoNotFit {
		t.Fatalf("removal %+v, want DisksDoNotFit", p.removal)
	}
	for _, part := range []string{"brokers 3 and above", "broker 0 to", "more than 80 %",
		"Raise spec.brokers", "heartwood.dev/drain-anyway=true"} {
		if !strings.Contains(p.removal.Message, part) {
			t.Errorf("message %q lacks %q", p.removal.Message, part)
		}
	}

	// New partitions are still assigned, but only to brokers that stay.
	w.topic("later", 3, 3)
	w.pass()
	for key, text := range w.texts() {
		if strings.HasPrefix(key, "later") && text != "" && strings.ContainsAny(text, "34") {
			t.Errorf("partition %s is assigned to %s", key, text)
		}
	}
	w.in.cluster.Spec.Brokers = 5
	if p = w.pass(); p.removal.Reason != "" {
		t.Errorf("with 5 brokers: %+v", p.removal)
	}
}

func TestBrokersAreRemovedIfTheDisksSuffice(t *testing.T) {
	for name, test := range map[string]struct {
		percent int64
		change  func(*world)
	}{
		"space": {40, func(*world) {}},
		"annotation": {51, func(w *world) { // the removal would fill the disks to 89 %
			w.in.cluster.Annotations = map[string]string{v1alpha1.AnnotationDrainAnyway: "true"}
		}},
		"larger volumes": {60, func(w *world) {
			for id := range int32(5) {
				w.in.cluster.Status.Brokers = append(w.in.cluster.Status.Brokers,
					v1alpha1.BrokerStatus{ID: id, Volume: &v1alpha1.BrokerVolume{
						TotalBytes: 2000, UsedPercent: 30, Pressure: "None"}})
			}
		}},
		// Volumes that share a file system with other programs can already be this full.
		"less than 1 % more": {60, func(w *world) {
			for id := range int32(5) {
				w.in.cluster.Status.Brokers = append(w.in.cluster.Status.Brokers,
					v1alpha1.BrokerStatus{ID: id, Volume: &v1alpha1.BrokerVolume{
						TotalBytes: 1 << 20, UsedPercent: 90, Pressure: "Warn"}})
			}
		}},
	} {
		w, _ := filled(test.percent)
		test.change(w)
		w.in.cluster.Spec.Brokers = 3
		if p := w.pass(); p.removal.Reason != "" || w.on(3) > 0 {
			t.Errorf("%s: %+v, %d replicas stay", name, p.removal, w.on(3))
		}
	}
	w, _ := filled(62) // the removal would fill the disks to 103 %
	w.in.cluster.Annotations = map[string]string{v1alpha1.AnnotationDrainAnyway: "true"}
	w.in.cluster.Spec.Brokers = 3
	if p := w.pass(); p.removal.Reason == "" || w.on(3) != 8 ||
		strings.Contains(p.removal.Message, "ignore") {
		t.Errorf("%+v, %d replicas stay, want all", p.removal, w.on(3))
	}
}

// TestBrokersAreRemovedWhileAnotherIsDown checks a removal while another broker has no report and
// is in no ISR. The replicas of the down broker are still on its disk, and the measured use of the
// disk includes them.
func TestBrokersAreRemovedWhileAnotherIsDown(t *testing.T) {
	w, _ := filled(30)
	for key, entry := range w.in.sets.All() {
		set, _ := w.in.sets.Of(key)
		state := *entry.State
		state.ISR = slices.DeleteFunc(slices.Clone(state.ISR),
			func(m placement.InSyncReplica) bool { return m.Broker == 1 })
		if state.Leader == 1 {
			state.Leader = state.ISR[0].Broker
		}
		set.PutState(key, state)
	}
	for _, sizes := range w.in.disks.sizes {
		delete(sizes, 1)
	}
	delete(w.in.disks.used, 1)
	w.in.disks.silent = []int32{1}
	w.in.cluster.Status.Brokers = []v1alpha1.BrokerStatus{{ID: 1, Volume: &v1alpha1.BrokerVolume{
		TotalBytes: 1000, UsedPercent: 60, Pressure: "None"}}}
	w.in.cluster.Spec.Brokers = 3
	if p := w.pass(); p.removal.Reason != "" || w.on(3) > 0 {
		t.Errorf("%+v, %d replicas stay", p.removal, w.on(3))
	}
}

// TestBrokersAreRemovedAlthoughSizesAreUnknown checks that the removal waits for sizes only for a
// limited time.
func TestBrokersAreRemovedAlthoughSizesAreUnknown(t *testing.T) {
	w, _ := filled(40)
	before := w.texts()
	w.in.disks, w.in.awaitsSizes, w.in.cluster.Spec.Brokers = disks{}, true, 3
	p := w.pass()
	if !maps.Equal(w.texts(), before) || !p.unsized ||
		p.removal.Reason != v1alpha1.ReasonDraining {
		t.Errorf("got %v, %+v, want that the replicas stay", w.texts(), p.removal)
	}
	w.in.awaitsSizes = false
	if p = w.pass(); w.on(3) > 0 || !p.unsized || p.removal.Reason != "" {
		t.Errorf("%d replicas stay: %+v", w.on(3), p.removal)
	}
}

// TestFewerReplicasMakeSpaceForARemoval checks that a Topic's number of replicas can be reduced
// while the removal of brokers is held back, and that the removal then proceeds.
func TestFewerReplicasMakeSpaceForARemoval(t *testing.T) {
	w, topic := filled(60)
	w.in.cluster.Spec.Brokers = 3
	w.pass()
	topic.Spec.Replicas = new(int32(1))
	if p := w.pass(); p.removal.Reason != "" || w.on(3) > 0 {
		t.Errorf("%+v, %d replicas stay", p.removal, w.on(3))
	}
}

func TestFullBrokersThatPreventARemovalAreNamed(t *testing.T) {
	w, _ := filled(40)
	w.in.cluster.Spec.Brokers = 3
	for id := range int32(3) {
		w.in.cluster.Status.Brokers = append(w.in.cluster.Status.Brokers, v1alpha1.BrokerStatus{
			ID: id, Volume: &v1alpha1.BrokerVolume{TotalBytes: 1000, UsedPercent: 93,
				Pressure: v1alpha1.PressureReject}})
	}
	p := w.pass()
	if p.removal.Reason != v1alpha1.ReasonDisksDoNotFit ||
		!strings.Contains(p.removal.Message, "[0 1 2] are almost full") ||
		!strings.Contains(p.removal.Message, "Topics orders") {
		t.Errorf("removal %+v", p.removal)
	}
}

// TestReplicasMoveToDisksWithSpace checks that the choice of brokers considers sizes: with the
// numbers of replicas alone, one broker would get too many bytes.
func TestReplicasMoveToDisksWithSpace(t *testing.T) {
	w := newWorld(3, 1)
	w.in.cluster.Spec.Storage.Size = resource.MustParse("1000")
	topic := w.topic("orders", 3, 1)
	topic.Spec.InitialReplicas = []v1alpha1.InitialReplicas{{Partition: 0, Replicas: []int32{0}},
		{Partition: 1, Replicas: []int32{1}}, {Partition: 2, Replicas: []int32{2}}}
	w.pass()
	rows := []report.Partition{}
	for id, bytes := range []int64{700, 10, 300} {
		w.inSync(partitionset.Key{Topic: "orders", Index: int32(id)})
		rows = append(rows, report.Partition{Broker: int32(id), Topic: "orders",
			Partition: int32(id), Leader: true, SizeBytes: bytes})
	}
	w.in.disks = newDisks(&reports.Cluster{Rows: map[string][]report.Partition{"orders": rows}})
	w.in.cluster.Spec.Brokers = 2
	if p := w.pass(); p.removal.Reason != "" || w.texts()["orders/2"] != "1" {
		t.Errorf("%+v, partition 2 on %v, want broker 1", p.removal,
			slices.Sorted(maps.Values(w.texts())))
	}
}
