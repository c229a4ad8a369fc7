package rebalance

import (
	"fmt"
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement/balance"
)

// excluded contains the brokers that need replicas for balance but cannot get them. Both lists are
// sorted.
type excluded struct {
	full     []int32 // brokers that reject records, or whose disks would become too full
	cordoned []int32 // brokers in spec.cordoned
}

// excluded returns the brokers that would get replicas in a plan without cordons and with unlimited
// disks. It is called if the plan for balance has no moves. The potential of that plan does not
// provide this information, because it is also above 0 if the partitions are too large to be
// balanced.
func (d *decider) excluded() (e excluded) {
	cluster := d.cluster()
	for i := range cluster.Brokers {
		b := &cluster.Brokers[i]
		b.Capacity = 0
		b.Cordoned = b.Cordoned && slices.Contains(d.Cluster.Spec.Drain, b.ID)
	}
	full := d.Cluster.FullBrokers()
	plan := d.begins(cluster)
	if d.hasMoved() {
		plan = d.balance(cluster)
	}
	for i, m := range plan.Moves {
		if !m.Copy {
			continue
		}
		limit := d.capacity(m.To) / 100 * CapacityPercent(d.Cluster)
		switch {
		case slices.Contains(d.Cluster.Spec.Cordoned, m.To):
			e.cordoned = append(e.cordoned, m.To)
		// If the first move of this plan was not possible before, only a limit can have prevented it.
		case i == 0, full[m.To], limit > 0 && d.used(m.To)+d.Partitions[m.Partition].Bytes > limit:
			e.full = append(e.full, m.To)
		}
	}
	for _, ids := range []*[]int32{&e.full, &e.cordoned} {
		slices.Sort(*ids)
		*ids = slices.Compact(*ids)
	}
	return e
}

// describe describes the brokers that get no replicas, with the reasons; "" if there are none.
func (e excluded) describe(percent int64) string {
	var all []string
	if len(e.full) > 0 {
		all = append(all, fmt.Sprintf("Brokers %v get no replicas for balance, because their disks "+
			"would be filled to more than %d %%, or they refuse records: free disk space, or enlarge "+
			"their volumes.", e.full, percent))
	}
	if len(e.cordoned) > 0 {
		all = append(all, fmt.Sprintf("Brokers %v get no replicas for balance, because they are in "+
			"spec.cordoned.", e.cordoned))
	}
	return strings.Join(all, " ")
}

// finish ends a run whose plan has no moves, or makes it wait. The run waits if a new broker
// without replicas is excluded, because no other run would fill this broker. It also waits for disk
// space if it has not made any move. Otherwise the run ends, because on full disks the last moves
// to new brokers may never fit, and a cordon of old brokers can last for a long time.
func (d *decider) finish() {
	run := d.run()
	if run.Trigger == v1alpha1.TriggerDrain {
		if d.Drained.Remaining > 0 {
			d.wait(d.describeRemaining())
		} else {
			d.end(v1alpha1.RebalanceDone, "The drained brokers hold no replicas.")
		}
		return
	}
	e := d.excluded()
	isEmpty := func(id int32) bool { return id >= run.Brokers && d.Held[id] == 0 }
	why := e.describe(CapacityPercent(d.Cluster))
	switch {
	case why == "":
		d.end(v1alpha1.RebalanceDone, "The brokers are as balanced as the partitions allow.")
	case slices.ContainsFunc(e.full, isEmpty), slices.ContainsFunc(e.cordoned, isEmpty),
		run.MovesDone == 0 && len(e.full) > 0:
		d.wait(why)
	default:
		d.end(v1alpha1.RebalanceDone, "The brokers are not balanced. "+why)
	}
}

// begins returns the moves that justify a new run, because a broker deviates from the mean by more
// than triggerTolerance.
func (d *decider) begins(cluster balance.Cluster) balance.Plan {
	return balance.New(cluster, d.options(balance.Options{TolerancePercent: triggerTolerance}))
}

// hasMoved reports whether the run has begun moves.
func (d *decider) hasMoved() bool {
	return d.run().MovesDone > 0 || len(d.run().Moving) > 0
}

// balance returns the remaining moves for balance.
func (d *decider) balance(cluster balance.Cluster) balance.Plan {
	if !d.hasMoved() {
		if plan := d.begins(cluster); len(plan.Moves) == 0 {
			return plan
		}
	}
	return balance.New(cluster, d.options(balance.Options{TolerancePercent: runTolerance}))
}
