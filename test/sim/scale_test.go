package sim

import (
	"slices"

	"heartwood.dev/heartwood/internal/placement"
)

// spareBrokers is how many brokers may be added.
const spareBrokers = 2

// scale is how many brokers there are to be. It is the controller's.
type scale struct {
	brokers  int            // those with lower ids are there to stay
	draining int            // those with lower ids are there; 0: just those that stay
	lost     map[int32]bool // for ever
	count    tally
}

// isMember tells whether a broker is to be up.
func (w *world) isMember(b *broker) bool {
	return int(b.id) < max(w.scale.brokers, w.scale.draining) && !w.scale.lost[b.id]
}

// members are the brokers that are to be up, also those that are drained.
func (w *world) members() (all []*broker) {
	for _, b := range w.brokers {
		if w.isMember(b) {
			all = append(all, b)
		}
	}
	return all
}

func (w *world) somebody() *broker {
	all := w.members()
	return all[w.random.IntN(len(all))]
}

// staying are the ids of brokers that may be given something.
func (w *world) staying() (ids []int32) {
	for _, b := range w.members() {
		if int(b.id) < w.scale.brokers {
			ids = append(ids, b.id)
		}
	}
	return ids
}

// rescale adds a broker, or has the one with the highest id drained, as far as replicas then still
// fit. One that comes back has the disk of before, as a StatefulSet's volumes stay, or another one.
func (w *world) rescale() {
	switch {
	case w.scale.draining > 0:
		w.note("there are to be %d brokers again", w.scale.draining) // somebody thinks better of it
		w.scale.brokers, w.scale.draining = w.scale.draining, 0
	case w.scale.brokers < len(w.brokers) && w.random.IntN(2) == 0:
		b := w.brokers[w.scale.brokers]
		if w.random.IntN(2) == 0 {
			b.end(ending{epoch: 0, lostAll: true})
			b.replaceDisk()
		}
		w.note("broker %d is added", b.id)
		w.scale.brokers++
		w.scale.count.added++
		w.start(b)
		w.settleNewcomer(b)
	case len(w.staying()) > w.profile.replicas:
		w.note("broker %d is drained", w.scale.brokers-1)
		w.scale.draining = w.scale.brokers
		w.scale.brokers--
		w.empty()
	}
}

// settleNewcomer puts a partition on a broker that was added, as somebody does who wants to have
// something of it.
func (w *world) settleNewcomer(b *broker) {
	t := w.someTopic()
	replicas := slices.Clone(w.destination(t))
	if !slices.Contains(replicas, b.id) {
		replicas[w.random.IntN(len(replicas))] = b.id
		w.move(t, replicas)
	}
}

// destination is where the replicas of a topic are to be.
func (w *world) destination(t *topic) []int32 {
	if p := w.meta.recorded(t.name); p.Target != nil {
		return p.Target
	}
	return w.meta.recorded(t.name).Replicas
}

// empty gives what lies on brokers that do not stay another place, as the operator does.
func (w *world) empty() {
	var stay []placement.Broker
	for _, id := range w.staying() {
		stay = append(stay, placement.Broker{ID: id})
	}
	load := map[int32]int{}
	for _, t := range w.meta.mu.topics {
		for _, id := range w.destination(t) {
			load[id]++
		}
	}
	for _, t := range w.meta.mu.topics {
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

// wanted tells whether a partition lies on a broker that is to go, or is to lie there.
func (s *scale) wanted(p placement.Partition) bool {
	goes := func(id int32) bool { return int(id) >= s.brokers || s.lost[id] }
	return slices.ContainsFunc(p.Replicas, goes) || slices.ContainsFunc(p.Target, goes)
}

// drained stops brokers that are to go once nothing is left on them, and sends what came there
// meanwhile away again.
func (w *world) drained() {
	waits := w.scale.draining > 0 || len(w.scale.lost) > 0
	if !waits || w.failed() {
		return
	}
	for _, t := range w.meta.mu.topics {
		p := w.meta.recorded(t.name)
		if destination := (placement.Partition{Replicas: w.destination(t)}); w.scale.wanted(
			destination,
		) &&
			p.LeaderEpoch > 0 {
			w.empty()
		}
		if w.scale.wanted(p) {
			return
		}
	}
	if w.scale.draining == 0 {
		return
	}
	b := w.brokers[w.scale.draining-1]
	w.note("broker %d is empty, and goes", b.id)
	w.scale.draining = 0
	w.scale.count.drained++
	if w.random.IntN(2) == 0 {
		w.stopInOrder(b)
	} else if l := b.life.Load(); l != nil {
		w.kill(b)
	}
}

// loseForEver ends a broker that never comes back, if the others can take what it has. Its replicas
// are to be on others then (drained).
func (w *world) loseForEver(b *broker) {
	l := b.life.Load()
	if l == nil || int(b.id) >= w.scale.brokers || len(w.staying()) <= w.profile.replicas ||
		!w.bearable(b) || w.random.IntN(2) == 0 {
		return
	}
	w.note("broker %d is lost for ever", b.id)
	if w.scale.lost == nil {
		w.scale.lost = map[int32]bool{}
	}
	w.scale.lost[b.id] = true
	w.scale.count.lost++
	w.finish(l, ending{lostAll: true}, 0)
}
