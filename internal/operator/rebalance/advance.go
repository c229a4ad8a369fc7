package rebalance

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement/balance"
)

const (
	// capacityPercent is the maximum disk usage, in percent, that moves may cause. It does not apply
	// to moves with Move.Anyway.
	capacityPercent = 80
	// rejectPercent is the default of spec.storage.pressure.rejectPercent.
	rejectPercent = 92
	// leadersMax is the maximum number of changes of preferred leaders per minute. Each change makes
	// clients refresh their metadata.
	leadersMax = 60
)

// cluster returns the input of the planner.
func (d *decider) cluster() balance.Cluster {
	var partitions []balance.Partition
	rates := d.ratesKnown()
	for i := range d.Partitions {
		p := &d.Partitions[i]
		partition := balance.Partition{Topic: p.Topic, Index: p.Index, Bytes: p.Bytes,
			Replicas: slices.Clone(p.Assigned), Fixed: p.Fixed || p.reassigning()}
		if rates {
			// rates below 1 KiB/s are insignificant, but would cause moves
			partition.Rate = max(0, p.Rate) >> 10
		}
		_, partition.KeepLeader = d.run().Led[p.Key()]
		partitions = append(partitions, partition)
	}
	c := PlanInput(d.Cluster, d.Racks, d.known(), d.Used, partitions)
	for i := range c.Brokers {
		b := &c.Brokers[i]
		if d.Drained.Obstacle != "" && slices.Contains(d.Cluster.Spec.Drain, b.ID) {
			b.Cordoned, b.Draining = true, b.ID >= d.Cluster.Spec.Brokers
		}
	}
	return c
}

// options returns the options of a plan.
func (d *decider) options(o balance.Options) balance.Options {
	o.CapacityPercent = CapacityPercent(d.Cluster)
	return o
}

// capacity returns the size of a broker's volume, preferably the measured size.
func (d *decider) capacity(id int32) int64 { return capacity(d.Cluster, id) }

// used returns the number of bytes in use on a broker's volume.
func (d *decider) used(id int32) int64 { return inUse(d.Cluster, id, d.Used[id]) }

// known returns the number of bytes that each broker's replicas in the input occupy.
func (d *decider) known() map[int32]int64 {
	known := map[int32]int64{}
	for i := range d.Partitions {
		for id, size := range d.Partitions[i].Sizes {
			known[id] += size
		}
	}
	return known
}

// ratesKnown reports whether the rates of all partitions with a leader are known. If not, rates are
// not balanced, because an unknown rate must not count as 0.
func (d *decider) ratesKnown() bool {
	return !slices.ContainsFunc(d.Partitions,
		func(p Partition) bool { return p.Leader >= 0 && p.Rate < 0 })
}

// advance begins moves, or ends the run.
func (d *decider) advance() {
	run := d.run()
	d.Again = interval
	if run.Phase == v1alpha1.RebalanceCancelling {
		run.Message = "The run was cancelled; moves that are more than half done are completed."
		if d.Cluster.Paused() {
			run.Message = d.pauses()
			return
		}
		if d.takeBack(); len(run.Moving) == 0 {
			d.end(v1alpha1.RebalanceCancelled,
				"The run was cancelled. Completed moves remain in effect.")
		}
		return
	}
	inside, until := true, time.Duration(0)
	if spec := d.Cluster.Spec.Rebalance; spec != nil {
		inside, until = spec.Window.Contains(d.Now)
	}
	switch {
	case d.Cluster.Paused():
		d.wait(d.pauses())
	case d.Obstacle != "":
		d.wait(d.Obstacle)
	case d.Drained.Obstacle != "" && run.Trigger == v1alpha1.TriggerDrain && len(run.Moving) == 0:
		d.end(v1alpha1.RebalanceBlocked, d.Drained.Obstacle)
	case d.Drained.Obstacle != "" && d.drainedDown() != "":
		d.wait(d.drainedDown())
	case !inside:
		d.wait(fmt.Sprintf("The window spec.rebalance.window begins in %v.",
			until.Truncate(time.Minute)))
	default:
		d.execute()
	}
}

// drainedDown describes a broker in spec.drain that is down, if there is one. While the drain is
// blocked, such a broker is treated like any other: no move begins while it is down.
func (d *decider) drainedDown() string {
	for _, id := range d.Drained.Requested {
		if d.Down[id] {
			return fmt.Sprintf("Broker %d is not up, and cannot be drained. %s", id, d.Drained.Obstacle)
		}
	}
	return ""
}

// wait sets the phase of a run that must not begin any move at present.
func (d *decider) wait(why string) {
	run := d.run()
	run.Passes = nil
	run.Phase, run.Message = v1alpha1.RebalanceWaiting, why
	if len(run.Moving) > 0 {
		run.Phase = v1alpha1.RebalanceMoving
		run.Message = "No further move begins. " + why
	}
}

// execute makes a plan and begins its first moves.
func (d *decider) execute() {
	run := d.run()
	plan := d.plan()
	d.planned, run.Moves = 0, run.MovesDone+int32(len(run.Moving)+len(plan.Moves))
	for _, m := range plan.Moves {
		if m.Copy {
			d.planned += d.Partitions[m.Partition].Bytes
		}
	}
	if len(plan.Moves) == 0 && len(run.Moving) == 0 {
		d.finish()
		return
	}
	waits := d.selectMoves(plan)
	switch {
	case len(run.Moving) > 0:
		run.Phase = v1alpha1.RebalanceMoving
		run.Message = fmt.Sprintf("%d moves are in progress, %d follow.", len(run.Moving),
			int(run.Moves-run.MovesDone)-len(run.Moving))
	default:
		run.Phase, run.Message = v1alpha1.RebalanceWaiting, waits
	}
}

// describeRemaining describes why a drain without planned moves has not ended.
func (d *decider) describeRemaining() string {
	if len(d.Invalid) > 0 {
		return fmt.Sprintf("The entry of partition %s in its PartitionSet is invalid, so its brokers "+
			"are not known: correct the entry.", d.Invalid[0])
	}
	return fmt.Sprintf("%d replicas on the drained brokers cannot be moved yet: reassignments are in "+
		"progress, or the numbers of replicas change.", d.Drained.Remaining)
}

// plan returns the remaining moves. A run that only drains brokers makes no other moves. Any other
// run first makes the moves for balance. If no such moves remain but the brokers in spec.drain
// still have replicas, plan uses Options.DrainOnly, which allows balance.Cluster.AnywayPercent.
func (d *decider) plan() balance.Plan {
	cluster := d.cluster()
	if d.run().Trigger != v1alpha1.TriggerDrain {
		plan := d.balance(cluster)
		if len(plan.Moves) > 0 || d.Drained.Remaining == 0 || d.Drained.Obstacle != "" {
			return plan
		}
	}
	return balance.New(cluster, d.options(balance.Options{DrainOnly: true}))
}

// selectMoves begins moves within the limits. It returns the reason why the first move that does
// not begin must wait. If the plan contains several moves of a partition, only the first of them
// can begin.
func (d *decider) selectMoves(plan balance.Plan) (waits string) {
	s := selection{decider: d, sends: map[int32]int{}, receives: map[int32]int{},
		bytes: map[int32]int64{}, cleans: map[int32]int{}, passes: map[string]time.Time{}}
	for i := range d.Partitions {
		s.occupy(&d.Partitions[i])
	}
	for _, moment := range d.run().Led {
		if d.Now.Sub(moment) < time.Minute {
			s.leaders++
		}
	}
	seen := map[int]bool{}
	for _, m := range plan.Moves {
		if seen[m.Partition] {
			continue
		}
		seen[m.Partition] = true
		if why := s.begin(m); why != "" && waits == "" {
			waits = why
		}
	}
	d.run().Passes = s.passes
	return waits
}

// selection tracks what the moves in progress use.
type selection struct {
	*decider
	sends, receives map[int32]int
	bytes           map[int32]int64 // bytes that each broker will receive
	leaders         int             // preferred leaders changed in the last minute
	cleans          map[int32]int   // moves to each broker that wait for the cleaner
	passes          map[string]time.Time
}

// occupy accounts for a reassignment in progress.
func (s *selection) occupy(p *Partition) {
	if !p.reassigning() {
		return
	}
	for _, id := range p.adding() {
		s.sends[p.Leader]++
		s.receives[id]++
		s.bytes[id] += max(0, p.Bytes-p.Sizes[id])
	}
}

// begin begins a move, or returns the reason why it must wait.
func (s *selection) begin(m balance.Move) (waits string) {
	p, run := &s.Partitions[m.Partition], s.run()
	bytes, key := int64(0), p.Key()
	if m.Copy {
		if waits := s.obstacle(p, m); waits != "" {
			return waits
		}
		s.sends[p.Leader]++
		s.receives[m.To]++
		s.bytes[m.To] += p.Bytes
		s.planned -= p.Bytes
		bytes = p.Bytes
	} else if s.leaders >= leadersMax {
		return "Further leaders follow."
	}
	if m.Goal == balance.LeaderRate || m.Goal == balance.Leaders {
		s.leaders++
		run.Led[key] = s.Now
	}
	s.Assign = append(s.Assign, Change{Partition: m.Partition, Before: p.Assigned,
		After: m.Replicas})
	run.Moving = append(run.Moving, key)
	run.Targets[key] = Target{Replicas: m.Replicas, At: s.Now, Bytes: bytes}
	p.Assigned = m.Replicas
	delete(run.Waits, key)
	return ""
}

// obstacle returns the reason why a copy must wait, or "" if it can begin.
func (s *selection) obstacle(p *Partition, m balance.Move) string {
	percent := CapacityPercent(s.Cluster)
	if m.Anyway {
		percent = anywayPercent(s.Cluster)
	}
	capacity := s.capacity(m.To) / 100 * percent
	switch {
	case p.Leader < 0:
		return fmt.Sprintf("Partition %s has no leader.", p.Key())
	case len(p.Sizes) == 0:
		return fmt.Sprintf("The size of partition %s is not known.", p.Key())
	case s.receives[m.To] >= s.limit || s.sends[p.Leader] >= s.limit:
		return fmt.Sprintf("Brokers %d and %d copy as many replicas as "+
			"spec.rebalance.concurrentPerBroker allows.", p.Leader, m.To)
	case capacity > 0 && s.used(m.To)+s.bytes[m.To]+p.Bytes > capacity:
		return fmt.Sprintf("The disk of broker %d is filled to more than %d %% until other replicas "+
			"have left it.", m.To, percent)
	}
	return s.awaitCleaner(p, m)
}

// end ends the run.
func (d *decider) end(phase v1alpha1.RebalancePhase, message string) {
	run := d.run()
	run.Phase, run.Message, run.EstimatedCompletionTime = phase, message, nil
	run.CompletionTime = new(metav1.NewTime(d.Now.Truncate(time.Second)))
	run.Moves = run.MovesDone
	if phase == v1alpha1.RebalanceDone && run.Trigger != v1alpha1.TriggerDrain {
		run.Brokers = d.Cluster.Spec.Brokers
	}
	d.Again = 0
	if d.policy == v1alpha1.RebalanceContinuous {
		d.Again = checkInterval
	}
}

// total computes the total number of bytes, and estimates the end of the run. A decision without a
// plan keeps the previous total.
func (d *decider) total() {
	run := d.run()
	if run.StartTime == nil {
		return
	}
	done, rest := run.Completed, max(0, d.planned)
	for _, key := range run.Moving {
		p := &d.Partitions[d.byKey[key]]
		if len(p.adding()) > 0 {
			done, rest = done+p.copied(), rest+p.Bytes-p.copied()
		}
	}
	run.BytesDone = max(0, done)
	if d.planned >= 0 || run.Phase != v1alpha1.RebalanceMoving && run.Phase !=
		v1alpha1.RebalanceWaiting {
		run.BytesTotal = run.BytesDone + rest
	}
	d.estimate()
}
