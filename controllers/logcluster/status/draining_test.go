package status

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/sets"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

func TestScaledConditionNamesWhatDrainingWaitsFor(t *testing.T) {
	const uid = types.UID("8c9d0d6e-5b1e-4b0e-9b57-1f5a3ad4a1c2")
	topic := func(replicas int32) v1alpha1.Topic {
		return v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "orders", UID: uid},
			Spec: v1alpha1.TopicSpec{
				Cluster: "main", Partitions: 1,
				TopicSettings: v1alpha1.TopicSettings{Replicas: &replicas},
			}}
	}
	on := func(replicas ...int32) map[string]partitionset.Assignment {
		return map[string]partitionset.Assignment{"orders": {Replicas: replicas,
			Tag: sets.Tag(uid)}}
	}
	retained := on(0, 1)
	retained["deleted"] = partitionset.Assignment{Replicas: []int32{2}, Tag: "anything",
		Reclaim: partitionset.Retained}
	for _, test := range []struct {
		name       string
		running    int32
		topic      v1alpha1.Topic
		partitions map[string]partitionset.Assignment // assignment of partition 0 of each topic
		status     metav1.ConditionStatus
		reason     string
		message    string
		brokers    int32 // number of required brokers
	}{
		{"scaled", 2, topic(2), on(0, 1), metav1.ConditionTrue,
			v1alpha1.ReasonScaled, "has 2 brokers", 2},
		{"one replica to move", 3, topic(2), on(0, 2), metav1.ConditionFalse,
			v1alpha1.ReasonDraining,
			"moved to other brokers: 1 replicas of partitions orders/0 remain", 3},
		{"all replicas have moved", 3, topic(2), on(0, 1),
			metav1.ConditionFalse,
			v1alpha1.ReasonDraining, "Brokers 2 and above hold no replicas and are being removed.",
			2},
		{"a retained partition keeps no broker", 3, topic(2),
			retained, metav1.ConditionFalse,
			v1alpha1.ReasonDraining, "are being removed. Their volumes have records of 1 retained " +
				"partitions of deleted topics, which do not move.", 2},
		{"a retained partition on a removed broker", 2, topic(2), retained, metav1.ConditionTrue,
			v1alpha1.ReasonScaled, "removed brokers have records of 1 retained partitions", 2},
		{"too many replicas", 3, topic(3), on(0, 1, 2), metav1.ConditionFalse,
			v1alpha1.ReasonReplicasDoNotFit, "the replicas of orders", 3},
		{"too few brokers running", 1, topic(1), on(0), metav1.ConditionFalse,
			v1alpha1.ReasonBrokersNotReady, "scaled from 1 to 2 brokers", 2},
		{"disks too small", 3, topic(2), on(0, 2), metav1.ConditionFalse,
			v1alpha1.ReasonDisksDoNotFit, "broker 0 to 90 %", 3},
		{"disks too small, too many replicas", 3, topic(3), on(0, 1, 2), metav1.ConditionFalse,
			v1alpha1.ReasonReplicasDoNotFit, "the replicas of orders", 3},
	} {
		set, _ := partitionset.Decode(&v1alpha1.PartitionSet{}, nil)
		for topic, assignment := range test.partitions {
			set.Assign(partitionset.Key{Topic: topic}, assignment)
		}
		s := &facts.Facts{
			Cluster: &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
				Spec: v1alpha1.LogClusterSpec{Brokers: 2}},
			Brokers: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &test.running}},
			Topics:  []v1alpha1.Topic{test.topic},
			Sets:    &sets.Cluster{Count: 1, Sets: map[int32]*partitionset.Set{0: set}},
		}
		removal := conditions.Removal{}
		if strings.HasPrefix(test.name, "disks") {
			removal = conditions.Removal{Reason: v1alpha1.ReasonDisksDoNotFit,
				Message: "broker 0 to 90 %"}
		}
		d := s.Drain()
		if got := scaledCondition(s, d, removal); got.Status != test.status ||
			got.Reason != test.reason ||
			!strings.Contains(got.Message, test.message) || d.Brokers != test.brokers {
			t.Errorf("%s: got %d required brokers, %s %s %q; want %d, %s %s %q", test.name, d.Brokers,
				got.Status, got.Reason, got.Message,
				test.brokers, test.status, test.reason, test.message)
		}
	}
}

// TestNoBrokerIsRemovedWhileReplicasAreUnknown checks that no broker is removed while a partition's
// entry cannot be parsed, or a PartitionSet was deleted. Any broker may have a replica of these
// partitions.
func TestNoBrokerIsRemovedWhileReplicasAreUnknown(t *testing.T) {
	const uid = types.UID("8c9d0d6e-5b1e-4b0e-9b57-1f5a3ad4a1c2")
	decode := func(assignments map[string]string) *partitionset.Set {
		set, _ := partitionset.Decode(&v1alpha1.PartitionSet{
			Spec: v1alpha1.PartitionSetSpec{Assignments: assignments}}, nil)
		return set
	}
	valid := decode(map[string]string{"orders/0": "0,1 " + sets.Tag(uid)})
	for _, test := range []struct {
		name    string
		sets    map[int32]*partitionset.Set
		brokers int32
		message string
	}{
		{"all known", map[int32]*partitionset.Set{0: valid, 1: decode(nil)}, 2, "being removed"},
		{"a missing set", map[int32]*partitionset.Set{0: valid}, 4,
			"unknown: PartitionSet main-1 (does not exist)"},
		{"an invalid entry", map[int32]*partitionset.Set{0: valid,
			1: decode(map[string]string{"orders/1": "no entry"})}, 4,
			"unknown: orders/1 (correct its entry in PartitionSet main-1)"},
		{"an invalid entry of a deleted Topic", map[int32]*partitionset.Set{0: valid,
			1: decode(map[string]string{"deleted/1": "no entry"})}, 2, "being removed"},
	} {
		running := int32(4)
		s := &facts.Facts{
			Cluster: &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
				Spec: v1alpha1.LogClusterSpec{Brokers: 2}},
			Brokers: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &running}},
			Topics:  []v1alpha1.Topic{{ObjectMeta: metav1.ObjectMeta{Name: "orders", UID: uid}}},
			Sets:    &sets.Cluster{Count: 2, Sets: test.sets},
		}
		d := s.Drain()
		got := scaledCondition(s, d, conditions.Removal{})
		if d.Brokers != test.brokers || got.Status != metav1.ConditionFalse ||
			!strings.Contains(got.Message, test.message) {
			t.Errorf("%s: got %d brokers, %s %q; want %d, False %q", test.name, d.Brokers, got.Status,
				got.Message, test.brokers, test.message)
		}
	}
}
