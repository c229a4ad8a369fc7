package cli

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// TestMatchingTopics checks that a command uses the Topic that the user means, or asks the user
// which one is meant.
func TestMatchingTopics(t *testing.T) {
	now := time.Now()
	topic := func(name, cluster, kafkaName string, age time.Duration) v1alpha1.Topic {
		return v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: name,
			CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Spec: v1alpha1.TopicSpec{Cluster: cluster, TopicName: kafkaName}}
	}
	deleted := topic("a-deleted", "one", "Orders", 9*time.Hour)
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	topics := []v1alpha1.Topic{deleted, topic("a-claim", "one", "Orders", time.Hour),
		topic("first", "one", "Orders", 2*time.Hour), topic("z", "two", "Orders", 3*time.Hour),
		topic("a", "one", "payments", time.Hour), topic("payments", "two", "", time.Hour)}
	for _, test := range []struct {
		name, cluster string
		want          []string
	}{
		{"Orders", "", []string{"first", "z"}}, {"Orders", "one", []string{"first"}},
		{"Orders", "two", []string{"z"}}, {"a-claim", "", []string{"a-claim"}},
		{"payments", "", []string{"payments"}}, {"payments", "one", []string{"a"}},
		{"first", "two", nil}, {"nothing", "", nil},
	} {
		var got []string
		for _, found := range matches(topics, test.name, test.cluster) {
			got = append(got, found.Name)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("topic %s of cluster %q: got %v, want %v", test.name, test.cluster, got, test.want)
		}
	}
}
