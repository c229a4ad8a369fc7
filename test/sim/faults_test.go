package sim

import (
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/placement"
)

// end notes how a life of a broker ended.
func (b *broker) end(e ending) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	// it was not registered yet: what it had is of the life before
	if e.epoch == 0 && len(b.ended) > 0 {
		e.epoch = b.ended[len(b.ended)-1].epoch
	}
	b.ended = append(b.ended, e)
}

// lostSince tells whether the broker has lost records of a log that it had in incarnation epoch or
// later.
func (b *broker) lostSince(epoch int64, synced bool) bool {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	return slices.ContainsFunc(b.ended, func(e ending) bool {
		return e.epoch >= epoch && (e.lostAll || e.lostCached && !synced)
	})
}

// some is a duration between the bounds, more often a short one.
func (w *world) some(low, high time.Duration) time.Duration {
	part := w.random.Float64()
	return low + time.Duration(part*part*float64(high-low))
}

// breakSomething does one bad thing. What it breaks is mended after a while.
func (w *world) breakSomething() {
	b, other := w.somebody(), w.somebody()
	switch w.random.IntN(21) {
	case 0, 1, 2:
		w.kill(b)
	case 3, 4:
		w.cutPower(b)
	case 5:
		w.swapDisk(b)
	case 6, 7:
		w.stopInOrder(b)
	case 8, 9:
		d := w.some(100*time.Millisecond, 12*time.Second)
		w.note("broker %d is paused for %s", b.id, d)
		w.net.hold(b.id, 1)
		w.later(d, func() { w.net.hold(b.id, -1) })
	case 10:
		w.separate(b.id, other.id)
	case 11:
		for _, o := range w.members() {
			w.separate(b.id, o.id)
		}
	case 12, 13, 14:
		w.separate(b.id, apiServer)
	case 15:
		delay := w.some(10*time.Millisecond, time.Second)
		w.note("messages of broker %d take %s", b.id, delay)
		w.net.delay(b.id, delay)
		w.later(w.some(time.Second, 8*time.Second), func() { w.net.delay(b.id, 0) })
	case 16:
		w.reassign()
	case 17:
		w.operator()
	case 18:
		w.takeOffAndPutBack(b)
	case 19:
		w.rescale()
	case 20:
		w.loseForEver(b)
	}
}

// separate cuts the network between two nodes for a while.
func (w *world) separate(a, b int32) {
	if a == b {
		return
	}
	d := w.some(100*time.Millisecond, 14*time.Second)
	w.note("%d and %d are cut off from each other for %s", a, b, d)
	w.net.separate(a, b, 1)
	w.later(d, func() { w.net.separate(a, b, -1) })
}

// operator is away for a while, or moves leaders home.
func (w *world) operator() {
	w.meta.mu.Lock()
	defer w.meta.mu.Unlock()
	if w.random.IntN(2) == 0 {
		w.note("leaders go home")
		w.meta.mu.preferred = true
		return
	}
	w.note("the operator is away")
	w.meta.mu.away = true
	w.later(w.some(time.Second, 8*time.Second), func() {
		w.meta.mu.Lock()
		defer w.meta.mu.Unlock()
		w.meta.mu.away = false
	})
}

// reassign puts a partition elsewhere.
func (w *world) reassign() {
	stay := w.staying()
	w.random.Shuffle(len(stay), func(i, j int) { stay[i], stay[j] = stay[j], stay[i] })
	w.move(w.someTopic(), stay[:w.profile.replicas])
}

func (w *world) someTopic() *topic {
	return w.meta.mu.topics[w.random.IntN(len(w.meta.mu.topics))]
}

// move has a partition's replicas moved, once it was led, if all of the brokers stay.
func (w *world) move(t *topic, target []int32) {
	stay := w.staying()
	if slices.ContainsFunc(target, func(id int32) bool { return !slices.Contains(stay, id) }) {
		return
	}
	w.meta.mu.Lock()
	defer w.meta.mu.Unlock()
	if next := t.partition; next.LeaderEpoch > 0 {
		next.Target = target
		w.meta.putLocked(t, next, false)
	}
}

// takeOffAndPutBack kills a broker, and while it is down takes it from the replicas of all topics,
// for as long as the others need to remove tombstones, and puts it back. What it kept of the time
// before has deleted keys (ADR 0185).
func (w *world) takeOffAndPutBack(b *broker) (away time.Duration) {
	l := b.life.Load()
	if l == nil {
		return 0
	}
	w.note("broker %d is killed, and no replica for a while", b.id)
	disk := b.disk.KillClone()
	away = w.some(8*time.Second, 14*time.Second)
	w.finish(l, ending{}, away+w.some(0, 2*time.Second))
	b.disk = disk
	for _, t := range w.meta.mu.topics {
		replicas := w.meta.recorded(t.name).Replicas
		others := slices.DeleteFunc(slices.Clone(replicas),
			func(id int32) bool { return id == b.id })
		if len(others) == 0 || len(others) == len(replicas) {
			continue
		}
		w.move(t, others)
		w.later(away, func() { w.move(t, append(slices.Clone(others), b.id)) })
	}
	return away
}

// kill ends the process of a broker; what it wrote is there.
func (w *world) kill(b *broker) {
	if l := b.life.Load(); l != nil {
		w.note("broker %d is killed", b.id)
		disk := b.disk.KillClone()
		w.finish(l, ending{}, w.downtime())
		b.disk = disk
	}
}

// cutPower ends a broker; what was not synced is lost, or a part of it. A broker that is down loses
// nothing any more: it stopped in order, or is dead already.
func (w *world) cutPower(b *broker) {
	if !w.bearable(b) {
		return
	}
	disk := b.disk.CrashClone()
	if w.random.IntN(2) == 0 {
		disk = b.disk.CrashClonePartly(w.random.Uint64())
	}
	w.note("the power of broker %d is cut", b.id)
	if l := b.life.Load(); l != nil {
		w.finish(l, ending{lostCached: true}, w.downtime())
	} else if len(b.ended) > 0 {
		w.mu.Lock()
		last := &b.ended[len(b.ended)-1]
		last.lostCached = !last.inOrder // then everything is on the disk
		w.mu.Unlock()
	}
	b.disk = disk
}

// swapDisk ends a broker and gives it an empty disk.
func (w *world) swapDisk(b *broker) {
	if l := b.life.Load(); l != nil && w.bearable(b) {
		w.note("broker %d gets another disk", b.id)
		w.finish(l, ending{lostAll: true}, w.downtime())
		b.replaceDisk()
	}
}

// bearable tells whether a broker may lose what it has: in a run that is not wild, only while
// another in-sync replica of each of its partitions lives.
func (w *world) bearable(b *broker) bool {
	if w.profile.wild {
		return true
	}
	for _, t := range w.meta.mu.topics {
		p := w.meta.recorded(t.name)
		in := slices.ContainsFunc(p.ISR,
			func(m placement.InSyncReplica) bool { return m.Broker == b.id })
		if in && !slices.ContainsFunc(p.ISR, func(m placement.InSyncReplica) bool {
			l := w.brokers[m.Broker].life.Load()
			return m.Broker != b.id && l != nil && l.epoch.Load() == m.Epoch && !l.stopping
		}) {
			return false
		}
	}
	return true
}

// finish ends a life at once, and begins another after a while. Its end is seen at once, or when
// its lease runs out.
func (w *world) finish(l *life, e ending, downtime time.Duration) {
	e.epoch = l.epoch.Load()
	l.broker.end(e)
	l.broker.stopping = false
	l.down()
	if w.random.IntN(2) == 0 {
		w.meta.ended(l.id, e.epoch)
	}
	w.later(downtime, func() { w.start(l.broker) })
}

// downtime is how long a broker is down.
func (w *world) downtime() time.Duration { return w.some(50*time.Millisecond, 10*time.Second) }

func (w *world) start(b *broker) {
	if b.life.Load() == nil && w.isMember(b) {
		w.note("broker %d starts", b.id)
		b.start()
	}
}

func (w *world) stopInOrder(b *broker) {
	if l := b.life.Load(); l != nil && !b.stopping {
		w.note("broker %d is to stop", b.id)
		b.stopping = true
		w.spawn(l.stop)
	}
}
