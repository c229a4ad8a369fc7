package isr

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/seed"
)

var runs = flag.Int("isr.runs", 2000, "number of runs of the ISR model")

// model tests a leader's State under failures: images are late, answers are lost, writes arrive
// late, and followers crash and return without their last records. The model knows the recorded ISR
// and each log's real end offset.
type model struct {
	random *rand.Rand
	state  *State
	now    time.Time
	hw     int64
	end    int64 // end of the leader's log, whose records are all durable

	recorded map[int32]int64 // broker epochs in the recorded ISR, by broker id
	version  int
	late     []lateWrite
	images   []modelImage // images that were built but not delivered yet, oldest first
	nodes    map[int32]*modelNode
	answer   *lateAnswer // answer to the update in flight; nil if there is none
	tracing  bool        // true if the test runs a single seed
	trace    []string
}

// lateAnswer is the answer to an update that was sent some time ago.
type lateAnswer struct {
	sent    time.Time
	outcome Outcome
	version int
}

type lateWrite struct {
	version int
	to      []metadata.InSync
	sent    time.Time
}

type modelImage struct {
	version  int
	isr      []int32
	replicas []Replica
}

// modelNode is a follower.
type modelNode struct {
	up         bool
	epoch      int64
	cleanEpoch int64 // previous broker epoch if it ended in a controlled shutdown, otherwise -1
	end        int64
	stopped    bool // true from the time when the log stops until the next start
}

// canBeElected reports whether a node can be elected as the member that is recorded with a broker
// epoch. The node must be up and have all records of the recorded epoch: its current epoch is the
// recorded one, or follows it after a controlled shutdown.
func (n *modelNode) canBeElected(recordedEpoch int64) bool {
	return n.up && (n.epoch == recordedEpoch || n.cleanEpoch == recordedEpoch)
}

// fenced reports whether a broker epoch is fenced, by the rules of placement.InSyncReplica.Fenced.
func (n *modelNode) fenced(epoch int64) bool {
	return n != nil && n.epoch > epoch && n.cleanEpoch != epoch
}

const modelLeader = 1

func newModel(seed uint64) *model {
	m := &model{
		random: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1000, 0),
		state:    New(modelLeader, 0, 10*time.Second),
		recorded: map[int32]int64{modelLeader: 1}, nodes: map[int32]*modelNode{},
	}
	for id := int32(2); id <= 4; id++ {
		m.nodes[id] = &modelNode{up: true, epoch: 1, cleanEpoch: -1}
		if m.random.IntN(2) == 0 {
			m.recorded[id] = 1
		}
	}
	m.makeImage()
	m.deliverImage()
	return m
}

func (m *model) tracef(format string, args ...any) {
	if m.tracing {
		m.trace = append(m.trace, fmt.Sprintf(format, args...))
	}
}

func (m *model) recordedISR() []int32 { return slices.Sorted(maps.Keys(m.recorded)) }

func (m *model) makeImage() {
	image := modelImage{version: m.version, isr: m.recordedISR()}
	for id, n := range m.nodes {
		replica := Replica{Broker: id, LiveEpoch: -1, RecordedEpoch: -1}
		if n.up {
			replica.LiveEpoch = n.epoch
		}
		if epoch, in := m.recorded[id]; in {
			replica.RecordedEpoch = epoch
			if n.up && n.fenced(epoch) {
				replica.FencedBelow = epoch + 1
			}
		}
		image.replicas = append(image.replicas, replica)
	}
	m.images = append(m.images, image)
}

// deliverImage delivers a random one of the waiting images, and drops the older ones.
func (m *model) deliverImage() {
	if len(m.images) == 0 {
		return
	}
	index := m.random.IntN(len(m.images))
	image := m.images[index]
	m.images = m.images[index+1:]
	m.state.ApplyImage(image.replicas, image.isr, int64(image.version), m.now)
	m.tracef("image %v", image.isr)
}

func (m *model) pick() (int32, *modelNode) {
	id := int32(2 + m.random.IntN(3))
	return id, m.nodes[id]
}

func (m *model) fetch(id int32, n *modelNode) {
	m.state.Fetched(Fetch{From: metadata.InSync{Broker: id, Epoch: n.epoch}, DurableEnd: n.end},
		m.end, m.now)
}

// step performs one random event, and then lets the leader propose.
func (m *model) step() {
	m.now = m.now.Add(time.Duration(m.random.IntN(1500)) * time.Millisecond)
	id, n := m.pick()
	switch m.random.IntN(16) {
	case 0, 1:
		m.end += int64(m.random.IntN(5))
	case 2, 3, 4:
		if n.up && !n.stopped { // the follower appends; its next fetch reports the new log end
			n.end = min(m.end, n.end+int64(m.random.IntN(8)))
		}
	case 5, 6:
		if n.up && !n.stopped {
			m.fetch(id, n)
		}
	case 7:
		m.stopOrStart(id, n)
	case 8:
		m.makeImage()
	case 9:
		m.deliverImage()
	case 10:
		m.operator()
	case 11:
		m.deliverLateWrite()
	case 12: // a hint, right or wrong, that the process has exited
		m.state.ProcessExited(metadata.InSync{Broker: id, Epoch: n.epoch})
		m.tracef("process of %d seems to have exited in epoch %d", id, n.epoch)
	case 13:
		m.deliverAnswer()
	case 14:
		n.stopped = n.up && (n.stopped || m.random.IntN(4) == 0)
	case 15:
		m.report(id, n)
	}
	m.propose()
	m.tracef("  recorded %v, leader's %v, pending %v, in metadata %v, high watermark %d",
		m.recorded, m.state.recorded, m.state.pendingUpdates, m.state.inMetadata, m.hw)
	m.hw = max(m.hw, min(m.end, m.state.HighWatermark(m.end, m.end, m.now)))
}

// stopOrStart stops a follower, or starts it again. A follower that crashes may lose its last
// records.
func (m *model) stopOrStart(id int32, n *modelNode) {
	if n.up {
		n.up, n.cleanEpoch = false, -1
		if m.random.IntN(3) == 0 {
			n.cleanEpoch = n.epoch
			m.tracef("controlled shutdown of %d, end %d", id, n.end)
			return
		}
		n.end = max(0, n.end-int64(m.random.IntN(4)))
		m.tracef("crash of %d, end %d", id, n.end)
		return
	}
	n.up, n.stopped = true, false
	n.epoch++
	m.tracef("start of %d in epoch %d after a controlled shutdown in %d", id, n.epoch, n.cleanEpoch)
}

// operator makes one change that the operator would make. It removes a follower that is down or has
// restarted, or updates the recorded epoch of a follower that has restarted after a controlled
// shutdown.
func (m *model) operator() {
	for id, epoch := range m.recorded {
		n := m.nodes[id]
		if n != nil && n.up && n.cleanEpoch == epoch {
			m.recorded[id] = n.epoch
			m.version++
			m.tracef("operator updates %d to epoch %d", id, n.epoch)
			return
		}
		if n != nil && (!n.up || n.epoch != epoch) && m.random.IntN(2) == 0 {
			delete(m.recorded, id)
			m.version++
			m.tracef("operator removes %d", id)
			return
		}
	}
}

// report removes a follower from the recorded ISR because its log has stopped, as its broker's
// report does. The leader remains a member.
func (m *model) report(id int32, n *modelNode) (removed bool) {
	if epoch, in := m.recorded[id]; !in || !n.up || !n.stopped || n.epoch != epoch {
		return false
	}
	delete(m.recorded, id)
	m.version++
	m.tracef("broker %d has left: its log has stopped", id)
	return true
}

// deliverLateWrite delivers a late write. The write fails if the recorded ISR has changed since it
// was sent.
func (m *model) deliverLateWrite() {
	if len(m.late) == 0 {
		return
	}
	w := m.late[0]
	m.late = m.late[1:]
	if w.version == m.version && m.now.Sub(w.sent) < pendingMax {
		m.write(w.to)
		m.tracef("late write %v", w.to)
	}
}

// write records a set as the ISR. As in the API server, a write that changes nothing does not
// change the version.
func (m *model) write(to []metadata.InSync) {
	recorded := map[int32]int64{}
	for _, member := range to {
		recorded[member.Broker] = member.Epoch
	}
	if !maps.Equal(recorded, m.recorded) {
		m.recorded = recorded
		m.version++
	}
}

// deliverAnswer delivers the answer to the update in flight. If the answer is too late, the leader
// has stopped waiting, and the outcome is Unknown.
func (m *model) deliverAnswer() {
	if m.answer == nil {
		return
	}
	outcome := m.answer.outcome
	if m.now.Sub(m.answer.sent) > metadata.ChangeISRTimeout {
		outcome = Unknown
	}
	m.tracef("answer %v to the update", outcome)
	m.state.Settle(outcome, int64(m.answer.version), m.now)
	m.answer = nil
}

func (m *model) extent() Extent { return Extent{HighWatermark: m.hw, End: m.end} }

// matches reports whether the recorded ISR is the set that an update assumes.
func (m *model) matches(from []int32) bool {
	return slices.Equal(slices.Sorted(slices.Values(from)), m.recordedISR())
}

// propose lets the leader propose an update, and chooses its outcome at random.
func (m *model) propose() {
	from, to, ok := m.state.Propose(1, m.extent(), m.now)
	if !ok {
		return
	}
	if m.random.IntN(3) == 0 { // the request is lost before it reaches the store
		m.state.Settle(Unknown, 0, m.now)
		return
	}
	m.tracef("propose %v -> %v at high watermark %d", from, to, m.hw)
	conflict := !m.matches(from)
	for _, member := range to {
		if n := m.nodes[member.Broker]; n != nil && (!n.up || n.epoch != member.Epoch) {
			conflict = true
		}
	}
	chance := m.random.IntN(8)
	switch {
	case conflict && chance%2 == 0:
		m.answer = &lateAnswer{sent: m.now, outcome: Conflict}
	case conflict:
		m.state.Settle(Conflict, 0, m.now)
	case chance < 2:
		m.late = append(m.late, lateWrite{m.version, to, m.now})
		m.state.Settle(Unknown, 0, m.now)
	case chance < 4:
		m.write(to)
		m.state.Settle(Unknown, 0, m.now)
	case chance < 6:
		m.write(to)
		m.answer = &lateAnswer{m.now, Recorded, m.version}
	default:
		m.write(to)
		m.state.Settle(Recorded, int64(m.version), m.now)
	}
}

// check verifies the invariant that every broker that can be elected has all records below the high
// watermark.
func (m *model) check(t *testing.T, seed uint64) {
	t.Helper()
	for id, epoch := range m.recorded {
		if n := m.nodes[id]; n != nil && n.canBeElected(epoch) && n.end < m.hw {
			t.Fatalf("seed %d: broker %d can be elected with log end %d, the high watermark is %d\n%s",
				seed, id, n.end, m.hw, strings.Join(m.trace, "\n"))
		}
	}
}

// recover ends all failures. It verifies that all replicas join the ISR and that the high watermark
// reaches the log end. Then it stops the log of one follower, and verifies that the follower leaves
// the ISR once, and returns only when it fetches again.
func (m *model) recover(t *testing.T, seed uint64) {
	t.Helper()
	m.deliverAnswer()
	for _, n := range m.nodes {
		n.stopped = false
	}
	m.settle(40)
	m.expect(t, seed, []int32{1, 2, 3, 4})
	stopped, n := m.pick()
	n.stopped = true
	if reports := m.settle(20); reports != 1 {
		t.Fatalf("seed %d: broker %d has left the ISR %d times while its log was stopped, want once\n%s",
			seed, stopped, reports, strings.Join(m.trace, "\n"))
	}
	m.end++
	m.settle(1)
	m.expect(t, seed, slices.DeleteFunc([]int32{1, 2, 3, 4},
		func(id int32) bool { return id == stopped }))
	n.stopped = false
	m.settle(2)
	m.expect(t, seed, []int32{1, 2, 3, 4})
}

// settle lets some seconds pass, in which all followers are up and fetch unless their log has
// stopped, metadata images are delivered, and ISR updates are answered. It returns how often a
// follower with a stopped log was removed from the ISR.
func (m *model) settle(seconds int) (reports int) {
	for range seconds {
		m.now = m.now.Add(time.Second)
		m.deliverLateWrite()
		for id, n := range m.nodes {
			if !n.up {
				n.up, n.stopped = true, false
				n.epoch++
			}
			n.cleanEpoch = -1
			if m.report(id, n) {
				reports++
			}
			if !n.stopped {
				n.end = m.end
				m.fetch(id, n)
			}
		}
		for id, epoch := range m.recorded {
			if n := m.nodes[id]; n != nil && n.epoch != epoch {
				delete(m.recorded, id)
				m.version++
			}
		}
		m.images = nil
		m.makeImage()
		m.deliverImage()
		if from, to, ok := m.state.Propose(1, m.extent(), m.now); ok {
			if m.matches(from) {
				m.write(to)
				m.state.Settle(Recorded, int64(m.version), m.now)
			} else {
				m.state.Settle(Conflict, 0, m.now)
			}
		}
		m.hw = max(m.hw, m.state.HighWatermark(m.end, m.end, m.now))
	}
	return reports
}

// expect verifies the recorded ISR, and that the high watermark has reached the log end.
func (m *model) expect(t *testing.T, seed uint64, isr []int32) {
	t.Helper()
	if !slices.Equal(m.recordedISR(), isr) || m.hw != m.end {
		t.Fatalf("seed %d: after recovery the ISR is %v, want %v; the high watermark is %d of %d\n%s",
			seed, m.recordedISR(), isr, m.hw, m.end, strings.Join(m.trace, "\n"))
	}
}

// TestModel checks that no broker that lacks a record below the high watermark can be elected,
// although images, answers and writes may be late or lost. After the failures end, all replicas
// must join the ISR.
func TestModel(t *testing.T) {
	_, single := seed.Single(t)
	for seed := range seed.Sequence(t, *runs) {
		m := newModel(seed)
		m.tracing = single
		for range 300 {
			m.step()
			m.check(t, seed)
		}
		m.recover(t, seed)
	}
}
