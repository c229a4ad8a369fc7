package controllers

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestWhatIsSaidOfBrokersThatGo: what each waits for, and nothing that is not there.
func TestWhatIsSaidOfBrokersThatGo(t *testing.T) {
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
	retained.Spec.Topic = "gone"
	for _, test := range []struct {
		what       string
		running    int32
		topic      v1alpha1.Topic
		partitions []v1alpha1.Partition
		status     metav1.ConditionStatus
		reason     string
		says       string
		brokers    int32 // that must run
	}{
		{"nothing to do", 2, topic(2), []v1alpha1.Partition{on(0, 1)}, metav1.ConditionTrue,
			v1alpha1.ReasonScaled, "there are 2 brokers", 2},
		{"a replica is to move", 3, topic(2), []v1alpha1.Partition{on(0, 2)}, metav1.ConditionFalse,
			v1alpha1.ReasonDraining, "1 replicas move first, of partitions orders-0", 3},
		{"all have moved", 3, topic(2), []v1alpha1.Partition{on(0, 1)}, metav1.ConditionFalse,
			v1alpha1.ReasonDraining, "hold nothing any more, and go", 2},
		{"what outlived its Topic keeps nobody", 3, topic(2),
			[]v1alpha1.Partition{on(0, 1), retained}, metav1.ConditionFalse,
			v1alpha1.ReasonDraining, "hold nothing any more", 2},
		{"too many replicas", 3, topic(3), []v1alpha1.Partition{on(0, 1, 2)}, metav1.ConditionFalse,
			v1alpha1.ReasonReplicasDoNotFit, "the replicas of orders", 3},
		{"too few brokers run", 1, topic(1), []v1alpha1.Partition{on(0)}, metav1.ConditionFalse,
			v1alpha1.ReasonBrokersNotReady, "1 of 2 brokers", 2},
	} {
		scope := logClusterScope{
			cluster: &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"},
				Spec: v1alpha1.LogClusterSpec{Brokers: 2}},
			brokers: &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &test.running}},
			topics:  []v1alpha1.Topic{test.topic}, partitions: test.partitions,
		}
		d := scope.draining()
		if got := scope.scaled(d); got.Status != test.status || got.Reason != test.reason ||
			!strings.Contains(got.Message, test.says) || d.brokers != test.brokers {
			t.Errorf("%s: %d brokers must run, %s %s %q; want %d, %s %s %q", test.what, d.brokers,
				got.Status, got.Reason, got.Message,
				test.brokers, test.status, test.reason, test.says)
		}
	}
}
