package health

import (
	"fmt"
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// damageRunbook is the last sentence of each finding about damage.
const damageRunbook = " What to do is in docs/operate/runbooks/HeartwoodDamageAtRest.md."

// damage returns the findings about damaged files that brokers have not repaired. There is one
// finding per replica. If a broker's status does not list all its damage, there is another finding
// for that broker.
func damage(c *v1alpha1.LogCluster) []Finding {
	var found []Finding
	for i := range c.Status.Brokers {
		b := &c.Status.Brokers[i]
		if b.Scrub == nil || b.Scrub.Damaged == 0 {
			continue
		}
		listed := slices.DeleteFunc(slices.Clone(b.Scrub.Findings),
			func(f v1alpha1.ScrubFinding) bool { return f.RepairedTime != nil })
		found = append(found, damagedReplicas(c, b.ID, listed)...)
		if int(b.Scrub.Damaged) > len(listed) {
			found = append(found, damaged(c, fmt.Sprintf("Broker %d", b.ID), fmt.Sprintf(
				"The broker has found damage in %d segments; its log contains the files that the "+
					"status does not list.", b.Scrub.Damaged)))
		}
	}
	return found
}

// damagedReplicas returns one finding for each partition that has damaged files on the broker, and
// one for files in the data directory.
func damagedReplicas(c *v1alpha1.LogCluster, broker int32,
	listed []v1alpha1.ScrubFinding) (found []Finding) {
	files, order := map[string][]string{}, []string{}
	for _, f := range listed {
		if files[f.Partition] == nil {
			order = append(order, f.Partition)
		}
		files[f.Partition] = append(files[f.Partition],
			fmt.Sprintf("file %s, position %d: %s", f.File, f.Position, f.Problem))
	}
	for _, partition := range order {
		subject := fmt.Sprintf("Broker %d", broker)
		if cut := strings.LastIndexByte(partition, '-'); cut > 0 {
			subject = "Partition " + partition[:cut] + "/" + partition[cut+1:]
		}
		found = append(found, damaged(c, subject, fmt.Sprintf(
			"Broker %d has found damage at rest that it could not repair: %s.", broker,
			strings.Join(files[partition], "; "))))
	}
	return found
}

func damaged(c *v1alpha1.LogCluster, subject, message string) Finding {
	return newFinding(Warning, subject, v1alpha1.EventDamageFound, message+damageRunbook,
		scoped(c, "kubectl heartwood scrub"))
}
