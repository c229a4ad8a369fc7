package cli

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// testResetTopic checks that --topic accepts the name of the Topic resource and the Kafka name of
// the topic, like all other commands.
func (f *fixture) testResetTopic(t *testing.T) {
	topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: "requests"},
		Spec: v1alpha1.TopicSpec{Cluster: "main", Partitions: 2, TopicName: "tickets"}}
	f.create(t, topic)
	defer func() {
		if err := f.api.Delete(t.Context(), topic); err != nil {
			t.Error(err)
		}
	}()
	reset := []string{"groups", "billing", "--reset", "1", "--dry-run", "--topic"}
	for _, name := range []string{"requests", "tickets"} {
		if out := f.run(t, append(reset, name)...).ok(t); strings.Count(out, "tickets-") != 2 {
			t.Errorf("--topic %s: %q", name, out)
		}
	}
	f.run(t, append(reset, "absent")...).fails(t, "topic absent in namespace "+f.namespace+
		": not found")
}
