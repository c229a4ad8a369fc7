package logcluster

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func TestScaledConditionNamesWhatDrainingWaitsFor(t *testing.T) {
	topic := func(replicas int32) v1alpha1.Topic {
		return v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "orders"},
			Spec: v1alpha1.TopicSpec{
				Cluster: "main", Partitions: 1,
				TopicSettings: v1alpha1.TopicSettings{Replicas: &replicas},
			}}
	}
	on := func(replicas ...int32) v1alpha1.Partition {
		return v1alpha1.Partition{ObjectMeta: metav1.ObjectMeta{Name: "orders-0"},
			Spec: v1alpha1.PartitionSpec{Topic: "orders", Replicas: replicas}}
	}
	retained := on(2)
	retained.Spec.Topic = "deleted"
	for _, test := range []struct {
		name       string
		running    int32
		topic      v1alpha1.Topic
		partitions []v1alpha1.Partition
		status     metav1.ConditionStatus
		reason     string
		message    string
		brokers    int32 // number of required brokers
	}{
		{"scaled", 2, topic(2), []v1alpha1.Partition{on(0, 1)}, metav1.ConditionTrue,
			v1alpha1.ReasonScaled, "has 2 brokers", 2},
		{"one replica to move", 3, topic(2), []v1alpha1.Partition{on(0, 2)}, metav1.ConditionFalse,
			v1alpha1.ReasonDraining,
			"moved to other brokers: 1 replicas of partitions orders-0 remain", 3},
		{"all replicas have moved", 3, topic(2), []v1alpha1.Partition{on(0, 1)},
			metav1.ConditionFalse,
			v1alpha1.ReasonDraining, "Brokers 2 and above hold no replicas and are being removed.",
			2},
		{"a retained partition keeps no broker", 3, topic(2),
			[]v1alpha1.Partition{on(0, 1), retained}, metav1.ConditionFalse,
			v1alpha1.ReasonDraining, "hold no replicas", 2},
		{"too many replicas", 3, topic(3), []v1alpha1.Partition{on(0, 1, 2)}, metav1.ConditionFalse,
			v1alpha1.ReasonReplicasDoNotFit, "the replicas of orders", 3},
		{"too few brokers running", 1, topic(1), []v1alpha1.Partition{on(0)}, metav1.ConditionFalse,
			v1alpha1.ReasonBrokersNotReady, "scaled from 1 to 2 brokers", 2},
	} {
		scope := scope{
			cluster: &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
				Spec: v1alpha1.LogClusterSpec{Brokers: 2}},
			brokers: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &test.running}},
			topics:  []v1alpha1.Topic{test.topic}, partitions: test.partitions,
		}
		d := scope.drain()
		if got := scope.scaledCondition(d); got.Status != test.status ||
			got.Reason != test.reason ||
			!strings.Contains(got.Message, test.message) || d.brokers != test.brokers {
			t.Errorf("%s: got %d required brokers, %s %s %q; want %d, %s %s %q", test.name, d.brokers,
				got.Status, got.Reason, got.Message,
				test.brokers, test.status, test.reason, test.message)
		}
	}
}
