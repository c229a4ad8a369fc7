package rebalance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/placement/balance"
)

const (
	// runTolerance is the maximum deviation of the brokers from the mean after a run, in percent. It
	// is smaller than triggerTolerance, so that the next run is not due at once.
	runTolerance = 5
	// triggerTolerance is the deviation of a broker from the mean at which a run begins, in percent.
	triggerTolerance = 10
	// interval is the time between two decisions of a run. Brokers report at the same interval.
	interval = 15 * time.Second
	// checkInterval is the time between two checks of policy Continuous.
	checkInterval = 5 * time.Minute
	// forgetAfter is how long a decided assignment may be missing in the cache before it is dropped. A
	// user or another controller has then assigned the partition.
	forgetAfter = 30 * time.Second
)

// decider is a decision in progress.
type decider struct {
	Input
	Decision
	policy v1alpha1.RebalancePolicy
	limit  int // maximum number of moves per broker
	byKey  map[string]int
	// planned is the number of bytes that planned moves will copy; -1: no plan was made.
	planned int64
}

// Decide makes a decision: it returns the actions to take next.
func Decide(in Input) Decision {
	d := newDecider(in)
	d.progress()
	d.Drained = d.drained()
	d.trigger()
	if d.run().Phase.Active() {
		d.advance()
	}
	d.hold()
	d.total()
	return d.Decision
}

func (d *decider) run() *Run { return &d.Decision.Run }

func newDecider(in Input) *decider {
	d := &decider{Input: in, policy: v1alpha1.RebalanceOnScale, limit: 2, byKey: map[string]int{},
		planned: -1}
	if spec := in.Cluster.Spec.Rebalance; spec != nil {
		d.policy, d.limit = cmp.Or(spec.Policy, d.policy), cmp.Or(int(spec.ConcurrentPerBroker), 2)
	}
	d.Decision.Run = in.Run
	run := d.run()
	restarted := run.Targets == nil
	run.Phase = cmp.Or(run.Phase, v1alpha1.RebalanceIdle)
	run.Message = withoutHold(run.Message)
	run.Moving = slices.Clone(run.Moving)
	run.Targets, run.Waits = maps.Clone(run.Targets), maps.Clone(run.Waits)
	if run.Led = maps.Clone(run.Led); run.Led == nil {
		run.Led = map[string]time.Time{}
	}
	if run.Targets == nil {
		run.Targets = map[string]Target{}
	}
	if run.Waits == nil {
		run.Waits = map[string]time.Time{}
	}
	d.Input.Partitions = slices.Clone(in.Partitions)
	for i := range d.Partitions {
		d.byKey[d.Partitions[i].Key()] = i
	}
	if restarted {
		run.Completed = run.BytesDone
		for _, key := range run.Moving {
			if i, exists := d.byKey[key]; exists {
				run.Completed -= d.Partitions[i].copied()
			}
		}
	}
	return d
}

// progress removes completed moves from the run. If the cache does not contain a decided assignment
// yet, this assignment replaces the one in the input.
func (d *decider) progress() {
	run := d.run()
	run.Moving = slices.DeleteFunc(run.Moving, func(key string) bool {
		i, exists := d.byKey[key]
		target, known := run.Targets[key]
		if exists && !known { // happens after a restart of the operator
			target = Target{Replicas: d.Partitions[i].Assigned, At: d.Now}
			if len(d.Partitions[i].adding()) > 0 {
				target.Bytes = d.Partitions[i].Bytes
			}
			run.Targets[key] = target
		}
		if exists && !slices.Equal(d.Partitions[i].Assigned, target.Replicas) {
			if d.Now.Sub(target.At) < forgetAfter {
				d.Partitions[i].Assigned = target.Replicas
				return false
			}
			exists = false // the partition is no longer part of this run
		}
		if exists && d.Partitions[i].reassigning() {
			return false
		}
		delete(run.Targets, key)
		if exists {
			run.MovesDone++
			run.Completed += target.Bytes
		}
		return true
	})
}

// drained returns the state of the brokers in spec.drain.
func (d *decider) drained() Drained {
	state := Drained{Requested: slices.Sorted(slices.Values(d.Cluster.Spec.Drain)),
		Retained: d.Input.Retained}
	if len(state.Requested) == 0 {
		return state
	}
	state.Remaining = len(d.Invalid)
	for _, id := range state.Requested {
		state.Remaining += d.Held[id]
	}
	if d.Obstacle != "" {
		state.Waits = d.Obstacle
		if run := d.run(); run.Phase == v1alpha1.RebalanceBlocked && state.Remaining > 0 {
			// kept, because a new plan would require information that is unknown
			state.Obstacle = run.Message
		}
		return state
	}
	if state.Remaining == 0 {
		return state
	}
	cluster := d.cluster()
	plan := balance.New(cluster, d.options(balance.Options{DrainOnly: true}))
	if len(plan.Blocked) > 0 {
		state.Obstacle = d.describeBlocked(cluster, plan.Blocked)
	}
	return state
}

// describeBlocked describes why brokers cannot be drained. It names the first replica that cannot
// leave as an example.
func (d *decider) describeBlocked(cluster balance.Cluster, blocked []balance.Blocked) string {
	first := blocked[0]
	partition := cluster.Partitions[first.Partition]
	text := fmt.Sprintf("%d replicas cannot leave: the replica of partition %s/%d on broker %d ",
		len(blocked), partition.Topic, partition.Index, first.Broker)
	anyway, percent := " Or set the annotation "+v1alpha1.AnnotationDrainAnyway+"=true to ignore it.",
		CapacityPercent(d.Cluster)
	if DrainsAnyway(d.Cluster) {
		anyway, percent = "", anywayPercent(d.Cluster)
	}
	switch first.Goal {
	case balance.Racks:
		return text + "would share a rack with another one. Add a broker in another rack." + anyway
	case balance.Capacity:
		return text + fmt.Sprintf("would fill another disk to more than %d %%. Add a broker or disk "+
			"space.", percent) + anyway
	default:
		return text + "finds no broker: each has a replica of the partition, has an almost full " +
			"volume, is cordoned or is drained, too. Add a broker, or lower spec.replicas of the Topic."
	}
}

// trigger begins, cancels or continues a run.
func (d *decider) trigger() {
	run := d.run()
	request := d.Cluster.Annotations[v1alpha1.AnnotationRebalance]
	brokers := d.Cluster.Spec.Brokers
	if run.Brokers == 0 || brokers < run.Brokers || d.policy == v1alpha1.RebalanceManual {
		run.Brokers = brokers
	}
	if run.Phase == v1alpha1.RebalanceBlocked && d.Drained.Remaining == 0 {
		run.Phase, run.Message, run.Trigger = v1alpha1.RebalanceIdle, "", ""
	}
	requested := d.requests(request)
	if run.Phase.Active() {
		if d.mustCancel(request) {
			d.cancel()
		} else if requested && run.Phase != v1alpha1.RebalanceCancelling {
			// The run in progress already does what the annotation requests. Make the annotation its
			// trigger, so that the annotation determines when the run ends.
			run.Request, run.Trigger = request, v1alpha1.TriggerManual
		}
		return
	}
	if d.Cluster.Paused() {
		return
	}
	scaled := brokers > run.Brokers
	switch {
	case request == v1alpha1.RebalanceCancel:
		return
	case requested:
		d.begin(v1alpha1.TriggerManual)
		run.Request = request
	case scaled && d.policy != v1alpha1.RebalanceManual:
		d.begin(v1alpha1.TriggerOnScale)
	case d.Obstacle != "":
	case d.Drained.Obstacle != "":
		run.Phase, run.Message = v1alpha1.RebalanceBlocked, d.Drained.Obstacle
		run.Trigger = v1alpha1.TriggerDrain
	case d.Drained.Remaining > 0:
		d.begin(v1alpha1.TriggerDrain)
	case d.policy == v1alpha1.RebalanceContinuous && d.unbalanced():
		d.begin(v1alpha1.TriggerContinuous)
	}
	if d.policy == v1alpha1.RebalanceContinuous {
		d.Again = checkInterval
	}
	if d.Drained.Remaining > 0 {
		d.Again = interval
	}
}

// unbalanced checks the balance, at most once per checkInterval.
func (d *decider) unbalanced() bool {
	run := d.run()
	if d.Obstacle != "" || d.Now.Sub(run.Checked) < checkInterval {
		return false
	}
	run.Checked = d.Now
	return len(balance.New(d.cluster(),
		d.options(balance.Options{TolerancePercent: triggerTolerance})).Moves) > 0
}

// mustCancel reports whether the reason for the run no longer exists.
func (d *decider) mustCancel(request string) bool {
	switch run := d.run(); {
	case run.Phase == v1alpha1.RebalanceCancelling:
		return false
	case request == v1alpha1.RebalanceCancel:
		return true
	case run.Trigger == v1alpha1.TriggerManual:
		return request == ""
	case run.Trigger == v1alpha1.TriggerDrain:
		return len(d.Drained.Requested) == 0
	default:
		return d.policy == v1alpha1.RebalanceManual
	}
}

// begin begins a run.
func (d *decider) begin(trigger v1alpha1.RebalanceTrigger) {
	last := d.run()
	*last = Run{RebalanceStatus: v1alpha1.RebalanceStatus{Phase: v1alpha1.RebalanceMoving,
		Trigger: trigger, Request: last.Request, Brokers: last.Brokers,
		StartTime: new(metav1.NewTime(d.Now.Truncate(time.Second)))},
		Targets: map[string]Target{}, Waits: map[string]time.Time{}, Led: map[string]time.Time{},
		Checked: last.Checked}
}

// cancel stops the run from beginning further moves.
func (d *decider) cancel() {
	run := d.run()
	run.Phase, run.EstimatedCompletionTime = v1alpha1.RebalanceCancelling, nil
	run.Brokers = d.Cluster.Spec.Brokers
}

// takeBack reverts the moves of a cancelled run that have copied less than half of their bytes, or
// whose target is down. Moves whose progress is unknown are left to a later decision. Other brokers
// may be down.
func (d *decider) takeBack() {
	run := d.run()
	run.Moving = slices.DeleteFunc(run.Moving, func(key string) bool {
		p := &d.Partitions[d.byKey[key]]
		if !p.reassigning() || len(p.adding()) == 0 {
			return false
		}
		down := slices.ContainsFunc(p.adding(), func(id int32) bool { return d.Down[id] })
		if !down && (d.progressUnknown(p) || 2*p.copied() >= p.Bytes && p.Bytes > 0) {
			return false
		}
		d.Assign = append(d.Assign, Change{Partition: d.byKey[key], Before: p.Assigned,
			After: slices.Clone(p.origin())})
		delete(run.Targets, key)
		return true
	})
}

// progressUnknown reports whether the size of a partition, or of one of its new replicas, may be
// unknown because a broker is down or has not reported the size.
func (d *decider) progressUnknown(p *Partition) bool {
	return p.Leader < 0 || slices.ContainsFunc(append(p.adding(), p.Leader),
		func(id int32) bool { return d.Down[id] || d.Silent[id] })
}
