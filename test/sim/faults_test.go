package sim

import (
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// exited records how a process of the broker ended.
func (b *broker) exited(e exit) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	// If the process was not registered yet, its data is the data of the previous process.
	if e.epoch == 0 && len(b.exits) > 0 {
		e.epoch = b.exits[len(b.exits)-1].epoch
	}
	e.lostAll = e.lostAll || len(b.flipped) > 0
	b.exits = append(b.exits, e)
}

// lostSince reports whether the broker may have lost records that its log contained in the given
// broker epoch or later. Parameter synced is set if the log synced all records.
func (b *broker) lostSince(epoch int64, synced bool) bool {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	return slices.ContainsFunc(b.exits, func(e exit) bool {
		return e.epoch >= epoch && (e.lostAll || e.lostUnsynced && !synced)
	})
}

// randomDuration returns a duration between the bounds. Short durations are more frequent.
func (w *world) randomDuration(low, high time.Duration) time.Duration {
	part := w.random.Float64()
	return low + time.Duration(part*part*float64(high-low))
}

// injectFault injects one fault, and schedules its end.
func (w *world) injectFault() {
	b, other := w.randomBroker(), w.randomBroker()
	switch w.random.IntN(37) {
	case 0, 1, 2:
		w.kill(b)
	case 3, 4:
		w.cutPower(b)
	case 5:
		w.replaceDisk(b)
	case 6, 7:
		w.controlledShutdown(b)
	case 8, 9:
		d := w.randomDuration(100*time.Millisecond, 12*time.Second)
		w.tracef("broker %d is paused for %s", b.id, d)
		w.net.pause(b.id, 1)
		w.schedule(d, func() { w.net.pause(b.id, -1) })
	case 10:
		w.disconnect(b.id, other.id)
	case 11:
		for _, o := range w.members() {
			w.disconnect(b.id, o.id)
		}
	case 12, 13, 14:
		w.disconnect(b.id, apiServer)
	case 15:
		delay := w.randomDuration(10*time.Millisecond, time.Second)
		w.tracef("messages of broker %d are delayed by %s", b.id, delay)
		w.net.delay(b.id, delay)
		w.schedule(w.randomDuration(time.Second, 8*time.Second), func() { w.net.delay(b.id, 0) })
	case 16:
		w.reassign()
	case 17:
		w.operator()
	case 18:
		w.removeAndRestoreReplica(b)
	case 19:
		w.rescale()
	case 20:
		w.losePermanently(b)
	case 21:
		w.replaceOperator()
	case 22:
		w.disconnectOperator()
	case 23:
		w.stopAPIServer()
	case 26, 27, 28:
		w.damageLog(b)
	case 29, 30:
		w.cutSharedPower()
	case 31, 32:
		w.failDisk(b)
	case 33, 34, 35, 36:
		w.flipBit(b)
	case 24, 25:
		outgoing := w.random.IntN(2) == 0
		for _, o := range w.members() {
			if outgoing {
				w.disconnectOneWay(b.id, o.id)
			} else {
				w.disconnectOneWay(o.id, b.id)
			}
		}
	}
}

// randomOperator returns the node id of an operator process.
func (w *world) randomOperator() int32 {
	if running := w.operators.running; len(running) > 0 {
		return running[w.random.IntN(len(running))].api.node
	}
	return firstOperator
}

// disconnectOperator disconnects an operator process from the API server for a while.
func (w *world) disconnectOperator() {
	if w.parent != nil {
		w.parent.fault()
		return
	}
	w.disconnect(w.randomOperator(), apiServer)
}

// stopAPIServer disconnects all nodes from the API server for a while.
func (w *world) stopAPIServer() {
	d := w.randomDuration(100*time.Millisecond, 14*time.Second)
	w.tracef("the API server is away for %s", d)
	w.net.pause(apiServer, 1)
	w.schedule(d, func() { w.net.pause(apiServer, -1) })
}

// disconnect disconnects two nodes for a while.
func (w *world) disconnect(a, b int32) {
	if a == b {
		return
	}
	d := w.randomDuration(100*time.Millisecond, 14*time.Second)
	w.tracef("nodes %d and %d are disconnected for %s", a, b, d)
	w.net.disconnect(a, b, 1)
	w.schedule(d, func() { w.net.disconnect(a, b, -1) })
}

// operator stops or pauses the operator for a while, or makes the operator or a client move
// leadership to preferred replicas.
func (w *world) operator() {
	if w.parent != nil {
		w.parent.fault()
		return
	}
	switch w.random.IntN(4) {
	case 0:
		w.tracef("operator moves leaders to their preferred replicas")
		w.meta.preferred.Store(true)
		w.schedule(500*time.Millisecond, func() { w.meta.preferred.Store(false) })
	case 1:
		t := w.randomTopic()
		w.tracef("%s: a client requests the preferred leader", t.name)
		w.store.change(t.set, false, func(s *partitionset.Set) {
			_ = s.RequestPreferred(t.key()) // fails if it already leads or is unavailable
		})
	case 2:
		node, d := w.randomOperator(), w.randomDuration(100*time.Millisecond, 12*time.Second)
		w.tracef("operator %d is paused for %s", node, d)
		w.net.pause(node, 1)
		w.schedule(d, func() { w.net.pause(node, -1) })
	case 3:
		w.stopOperatorsBut(0, 0)
		w.schedule(w.randomDuration(time.Second, 8*time.Second), func() { w.startOperator() })
	}
}

// reassign moves a partition to random brokers.
func (w *world) reassign() {
	stay := w.staying()
	w.random.Shuffle(len(stay), func(i, j int) { stay[i], stay[j] = stay[j], stay[i] })
	w.move(w.randomTopic(), stay[:w.profile.replicas])
}

func (w *world) randomTopic() *topic {
	return w.meta.topics[w.random.IntN(len(w.meta.topics))]
}

// move reassigns a partition if it has had a leader and all target brokers remain in the cluster.
func (w *world) move(t *topic, target []int32) {
	stay := w.staying()
	if slices.ContainsFunc(target, func(id int32) bool { return !slices.Contains(stay, id) }) {
		return
	}
	if w.meta.recorded(t.name).LeaderEpoch == 0 {
		return
	}
	if w.parent != nil {
		if !w.parent.move(t, target) {
			w.schedule(time.Second, func() { w.move(t, target) })
			return
		}
		w.tracef("%s: to be moved to %v", t.name, target)
	} else {
		w.tracef("%s: to be moved to %v", t.name, target)
		w.store.change(t.set, true, func(s *partitionset.Set) {
			s.Assign(t.key(), partitionset.Assignment{Replicas: target,
				Tag: partitionset.Tag(t.id)})
		})
	}
}

// removeAndRestoreReplica kills a broker. While the broker is down, it is removed from the replicas
// of all topics, for as long as the other brokers need to remove tombstones. Then it is added
// again, with an old log that contains deleted keys (ADR 0185). The result is the time until the
// broker is added again.
func (w *world) removeAndRestoreReplica(b *broker) (away time.Duration) {
	l := b.live.Load()
	if l == nil {
		return 0
	}
	w.tracef("broker %d is killed, and removed from all replicas for a while", b.id)
	disk := b.disk.KillClone()
	away = w.randomDuration(8*time.Second, 14*time.Second)
	w.endProcess(l, exit{}, away+w.randomDuration(0, 2*time.Second))
	b.disk = disk
	for _, t := range w.meta.topics {
		replicas := w.meta.recorded(t.name).Replicas
		others := slices.DeleteFunc(slices.Clone(replicas),
			func(id int32) bool { return id == b.id })
		if len(others) == 0 || len(others) == len(replicas) {
			continue
		}
		w.move(t, others)
		w.schedule(away, func() { w.move(t, append(slices.Clone(others), b.id)) })
	}
	return away
}

// kill kills the process of a broker. The disk keeps everything that the process wrote.
func (w *world) kill(b *broker) {
	if l := b.live.Load(); l != nil {
		w.tracef("broker %d is killed", b.id)
		disk := b.disk.KillClone()
		w.endProcess(l, exit{}, w.downtime())
		b.disk = disk
	}
}

// cutPower ends a broker's process. All or some of the unsynced records are lost. A broker that is
// down loses such records, too, unless it has shut down gracefully.
func (w *world) cutPower(b *broker) {
	if !w.mayLoseData(b) {
		return
	}
	disk := b.disk.CrashClone()
	if w.random.IntN(2) == 0 {
		disk = b.disk.CrashClonePartly(w.random.Uint64())
	}
	w.tracef("power cut of broker %d", b.id)
	if l := b.live.Load(); l != nil {
		w.endProcess(l, exit{lostUnsynced: true}, w.downtime())
	} else {
		b.loseUnsynced()
	}
	b.disk = disk
}

// loseUnsynced records that the broker's last process lost its unsynced records after its end.
// After a controlled shutdown, there are no unsynced records.
func (b *broker) loseUnsynced() {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if len(b.exits) > 0 {
		last := &b.exits[len(b.exits)-1]
		last.lostUnsynced = !last.graceful
	}
}

// replaceDisk ends a broker's process and replaces its disk with an empty one.
func (w *world) replaceDisk(b *broker) {
	if l := b.live.Load(); l != nil && w.mayLoseSynced(b) {
		w.tracef("broker %d gets an empty disk", b.id)
		w.endProcess(l, exit{lostAll: true}, w.downtime())
		b.replaceDisk()
	}
}

// mayLoseData reports whether a broker is allowed to lose its data. Unless allowLoss is set, each
// partition with this broker in the ISR must have another live ISR member.
func (w *world) mayLoseData(b *broker) bool {
	if w.profile.allowLoss {
		return true
	}
	for _, t := range w.meta.topics {
		p := w.meta.recorded(t.name)
		in := slices.ContainsFunc(p.ISR,
			func(m placement.InSyncReplica) bool { return m.Broker == b.id })
		if in && !slices.ContainsFunc(p.ISR, func(m placement.InSyncReplica) bool {
			l := w.brokers[m.Broker].live.Load()
			return m.Broker != b.id && l != nil && l.epoch.Load() == m.Epoch && !l.stopping &&
				len(l.flipped) == 0
		}) {
			return false
		}
	}
	return true
}

// mayLoseSynced reports whether a broker may lose synced data. If the power of all brokers may
// fail, the other replicas may lose the end of their logs as well.
func (w *world) mayLoseSynced(b *broker) bool {
	return w.profile.allowLoss || !w.profile.sharedPower && w.mayLoseData(b)
}

// endProcess ends a process at once, and starts another one after a while. The control plane
// detects the exit either at once or when the Lease expires.
func (w *world) endProcess(l *liveBroker, e exit, downtime time.Duration) {
	e.epoch, e.synced = l.epoch.Load(), w.oracle.syncedByTopic(l)
	l.broker.exited(e)
	l.broker.stopping = false
	l.kill()
	if w.random.IntN(2) == 0 {
		w.meta.processExited(l.id, e.epoch)
	}
	w.schedule(downtime, func() { w.start(l.broker) })
}

func (w *world) downtime() time.Duration {
	return w.randomDuration(50*time.Millisecond, 10*time.Second)
}

func (w *world) start(b *broker) {
	if b.live.Load() == nil && w.isMember(b) {
		w.tracef("broker %d starts", b.id)
		b.start()
	}
}

func (w *world) controlledShutdown(b *broker) {
	if l := b.live.Load(); l != nil && !b.stopping {
		w.tracef("controlled shutdown of broker %d", b.id)
		b.stopping = true
		w.spawn(l.stop)
	}
}
