package cli

import (
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

func (f *fixture) testTopics(t *testing.T) {
	f.golden(t, "topics.txt", f.run(t, "topics").ok(t))
	f.golden(t, "topics.json", f.run(t, "topics", "-o", "json").ok(t))
	f.testTopicsAgree(t)
}

// testTopicsAgree: topics and status have the same exit code for the same state of a Topic.
func (f *fixture) testTopicsAgree(t *testing.T) {
	before := get(t, f, "tickets", &v1alpha1.Topic{}).Status
	for reason, degraded := range map[string]bool{v1alpha1.ReasonReassigning: false,
		v1alpha1.ReasonUnderReplicated: true} {
		change(t, f, "tickets", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
			topic.Status = *before.DeepCopy()
			topic.Status.UnderReplicated = 1
			topic.Status.Conditions = append(topic.Status.Conditions, condition("Replicated", "False",
				reason, ""))
			topic.Status.Problems = []v1alpha1.PartitionProblem{{Partition: 0, Reason: reason}}
		})
		for _, command := range []string{"topics", "status"} {
			if r := f.run(t, command); degraded {
				r.degraded(t)
			} else {
				r.ok(t)
			}
		}
	}
	change(t, f, "tickets", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) { topic.Status = before })
}
