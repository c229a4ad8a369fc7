package sim

import (
	"slices"

	"heartwood.dev/heartwood/internal/placement"
)

// spareBrokers is the number of additional brokers that a run can start.
const spareBrokers = 2

// scale is the target number of brokers. Only the controller uses it.
type scale struct {
	brokers  int            // brokers with lower ids remain
	draining int            // brokers with lower ids still exist; 0: no broker is being drained
	lost     map[int32]bool // ids of permanently lost brokers
	count    tally
}

// isMember reports whether a broker is part of the cluster.
func (w *world) isMember(b *broker) bool {
	return int(b.id) < max(w.scale.brokers, w.scale.draining) && !w.scale.lost[b.id]
}

// members returns the cluster's brokers, including brokers that are being drained.
func (w *world) members() (all []*broker) {
	for _, b := range w.brokers {
		if w.isMember(b) {
			all = append(all, b)
		}
	}
	return all
}

func (w *world) randomBroker() *broker {
	all := w.members()
	return all[w.random.IntN(len(all))]
}

// staying returns the ids of the brokers that can receive replicas.
func (w *world) staying() (ids []int32) {
	for _, b := range w.members() {
		if int(b.id) < w.scale.brokers {
			ids = append(ids, b.id)
		}
	}
	return ids
}

// rescale adds a broker, or drains the broker with the highest id if its replicas fit on the
// others. A returning broker has either its old disk, as on a StatefulSet's volume, or an empty
// disk.
func (w *world) rescale() {
	switch {
	case w.scale.draining > 0:
		w.tracef("draining is canceled: %d brokers", w.scale.draining)
		w.scale.brokers, w.scale.draining = w.scale.draining, 0
		w.applyScale()
	case w.scale.brokers < len(w.brokers) && w.random.IntN(2) == 0:
		b := w.brokers[w.scale.brokers]
		if w.random.IntN(2) == 0 {
			b.exited(exit{epoch: 0, lostAll: true})
			b.replaceDisk()
		}
		w.tracef("broker %d is added", b.id)
		w.scale.brokers++
		w.scale.count.added++
		w.applyScale()
		w.start(b)
		w.assignToNew(b)
	case len(w.staying()) > w.profile.replicas:
		w.tracef("draining of broker %d begins", w.scale.brokers-1)
		w.scale.draining = w.scale.brokers
		w.scale.brokers--
		w.applyScale()
		w.moveOff()
	}
}

// applyScale passes the number of brokers to the parent process.
func (w *world) applyScale() {
	if w.parent != nil {
		w.parent.rescale()
	}
}

// assignToNew assigns a partition to a newly added broker.
func (w *world) assignToNew(b *broker) {
	t := w.randomTopic()
	replicas := slices.Clone(w.destination(t))
	if !slices.Contains(replicas, b.id) {
		replicas[w.random.IntN(len(replicas))] = b.id
		w.move(t, replicas)
	}
}

// destination returns the brokers to which a topic is being moved. If it is not being moved,
// destination returns the brokers to which it is assigned.
func (w *world) destination(t *topic) []int32 {
	if p := w.meta.recorded(t.name); p.Target != nil {
		return p.Target
	}
	return w.meta.recorded(t.name).Replicas
}

// moveOff moves replicas off the leaving brokers, like the operator.
func (w *world) moveOff() {
	var stay []placement.Broker
	for _, id := range w.staying() {
		stay = append(stay, placement.Broker{ID: id})
	}
	load := map[int32]int{}
	for _, t := range w.meta.topics {
		for _, id := range w.destination(t) {
			load[id]++
		}
	}
	for _, t := range w.meta.topics {
		before := w.destination(t)
		fitted, err := placement.Fit(stay, load, [][]int32{before}, w.profile.replicas)
		if err != nil {
			w.fail("%s: %v", t.name, err)
			return
		}
		for _, id := range before {
			load[id]--
		}
		for _, id := range fitted[0] {
			load[id]++
		}
		if !slices.Equal(before, fitted[0]) {
			w.move(t, fitted[0])
		}
	}
}

// mustMove reports whether a partition is on a leaving broker, or is being moved to one.
func (s *scale) mustMove(p placement.Partition) bool {
	leaves := func(id int32) bool { return int(id) >= s.brokers || s.lost[id] }
	return slices.ContainsFunc(p.Replicas, leaves) || slices.ContainsFunc(p.Target, leaves)
}

// continueDraining moves replicas that were assigned meanwhile off the leaving brokers. It stops a
// drained broker once no partition has a replica there.
func (w *world) continueDraining() {
	waits := w.scale.draining > 0 || len(w.scale.lost) > 0
	if !waits || w.failed() || w.parent != nil && !w.parent.up() {
		return
	}
	for _, t := range w.meta.topics {
		p := w.meta.recorded(t.name)
		if destination := (placement.Partition{Replicas: w.destination(t)}); w.scale.mustMove(
			destination,
		) &&
			p.LeaderEpoch > 0 {
			w.moveOff()
		}
		if w.scale.mustMove(p) {
			return
		}
	}
	if w.scale.draining == 0 {
		return
	}
	b := w.brokers[w.scale.draining-1]
	w.tracef("broker %d is drained and stops", b.id)
	w.scale.draining = 0
	w.scale.count.drained++
	if w.random.IntN(2) == 0 {
		w.controlledShutdown(b)
	} else if l := b.live.Load(); l != nil {
		w.kill(b)
	}
}

// losePermanently ends a broker that never returns, if the other brokers have room for the broker's
// replicas. continueDraining moves these replicas.
func (w *world) losePermanently(b *broker) {
	l := b.live.Load()
	if l == nil || int(b.id) >= w.scale.brokers {
		return
	}
	if len(w.staying()) <= w.profile.replicas || !w.mayLoseSynced(b) {
		return
	}
	if w.random.IntN(2) == 0 {
		return
	}
	w.tracef("broker %d is lost permanently", b.id)
	if w.scale.lost == nil {
		w.scale.lost = map[int32]bool{}
	}
	w.scale.lost[b.id] = true
	w.scale.count.lost++
	w.endProcess(l, exit{lostAll: true}, 0)
}
