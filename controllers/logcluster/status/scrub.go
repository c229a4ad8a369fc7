package status

import (
	"cmp"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// finding is a scrub finding that requires an event.
type finding struct {
	v1alpha1.ScrubFinding
	Text string // event message
}

// newFindings returns the findings in the brokers' statuses that their last statuses do not
// contain.
func newFindings(before, after []v1alpha1.BrokerStatus) (found []finding) {
	for i := range after {
		if after[i].Scrub == nil {
			continue
		}
		for _, f := range after[i].Scrub.Findings {
			known := slices.ContainsFunc(before, func(b v1alpha1.BrokerStatus) bool {
				return b.ID == after[i].ID && b.Scrub != nil &&
					slices.ContainsFunc(b.Scrub.Findings,
						func(other v1alpha1.ScrubFinding) bool { return f.Same(&other) })
			})
			if !known {
				found = append(found, finding{f, describeFinding(after[i].ID, f)})
			}
		}
	}
	return found
}

// describeFinding returns the event message for a finding.
func describeFinding(broker int32, f v1alpha1.ScrubFinding) string {
	where := fmt.Sprintf("broker %d, partition %s, file %s, position %d", broker,
		cmp.Or(f.Partition, "none (data directory)"), f.File, f.Position)
	if f.RepairedTime != nil {
		return fmt.Sprintf("Damage at rest was repaired on %s: %s.", where, f.Problem)
	}
	return fmt.Sprintf("Damage at rest was found on %s: %s. What to do is in "+
		"docs/operate/runbooks/HeartwoodDamageAtRest.md.", where, f.Problem)
}
