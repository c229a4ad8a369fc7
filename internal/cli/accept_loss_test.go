package cli

import (
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// testAcceptUnlisted checks the command for a partition that is not listed in the status. The
// status lists only five partitions, so other partitions may have lost records too. If the user may
// read the PartitionSet, the command must use it to decide whether the partition has.
func (f *fixture) testAcceptUnlisted(t *testing.T) {
	list := func(consent string, partitions ...int32) {
		t.Helper()
		change(t, f, "tickets", &v1alpha1.Topic{}, func(topic *v1alpha1.Topic) {
			topic.Status.Problems = nil
			for _, partition := range partitions {
				topic.Status.Problems = append(topic.Status.Problems, v1alpha1.PartitionProblem{
					Partition: partition, Reason: "ReplicaLost", Consent: consent})
			}
		})
	}
	state := func(text string) {
		t.Helper()
		change(t, f, "main-0", &v1alpha1.PartitionSet{}, func(s *v1alpha1.PartitionSet) {
			s.Status.Partitions["tickets/0"] = text
		})
	}
	const serves, leaderless = "0@3 0:7 k3f9x2ab 5", "-@3 0:7 k3f9x2ab 5"
	list("dir", 1, 2, 3, 4, 5)
	f.run(t, "accept-loss", "tickets/0").fails(t, "there is nothing to accept")
	state(leaderless)
	const first = "is not among the 5 worst partitions, which alone are in the status of the " +
		"Topic: accept first the loss of tickets/1, tickets/2, tickets/3, tickets/4, tickets/5"
	f.run(t, "accept-loss", "tickets/0").fails(t, "partition tickets/0 has no leader, but "+first)
	f.restrictedAcceptLoss(t, first)
	f.run(t, "accept-loss", "tickets/9").fails(t, "topic tickets has no partition 9")
	list("", 1, 2, 3, 4, 5)
	f.run(t, "accept-loss", "tickets/0").fails(t, "none of these waits for lost records")
	list("dir", 1, 2)
	f.run(t, "accept-loss", "tickets/0").fails(t, "does not contain it yet: try again")
	state(serves)
}

// restrictedAcceptLoss checks the message for a user who may not read PartitionSets. It must not
// claim that nothing is lost.
func (f *fixture) restrictedAcceptLoss(t *testing.T, want string) {
	r := runAs(t.Context(), f.restricted, "", "accept-loss", "tickets/0")
	r.fails(t, want)
	r.fails(t, "partition tickets/0 may have no leader (get PartitionSet main-0: ")
}
