package replica

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

var isrRuns = flag.Int("isr.runs", 2000, "how many lives of the ISR model")

// isrModel is a leader's isr in a hostile world: images are late, answers are lost, writes arrive
// late, followers die and come back without their last records. The world knows what is on record
// and what every log really holds.
type isrModel struct {
	random *rand.Rand
	isr    *isr
	now    time.Time
	hw     int64
	end    int64 // of the leader's log, all of it safe

	entries map[int32]int64 // on record: member -> incarnation
	version int
	late    []lateWrite
	images  []modelImage // made and not delivered yet, oldest first
	nodes   map[int32]*modelNode
	tells   bool // its story: one seed is run alone
	trace   []string
}

type lateWrite struct {
	version int
	to      []metadata.InSync
	sent    time.Time
}

type modelImage struct {
	recorded []int32
	replicas []replicaState
}

type modelNode struct {
	up    bool
	epoch int64
	clean int64 // the incarnation that stopped in order before this one; -1: none did
	end   int64
}

// holds tells whether what an incarnation had is there, in whichever lives: then it can be elected.
func (n *modelNode) holds(epoch int64) bool {
	return n.up &&
		(n.epoch == epoch || n.clean == epoch)
}

// ended tells whether an incarnation has ended for good, as placement.Member.Ended has it.
func (n *modelNode) ended(epoch int64) bool {
	return n != nil && n.epoch > epoch &&
		n.clean != epoch
}

const modelLeader = 1

func newISRModel(seed uint64) *isrModel {
	m := &isrModel{
		random: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1000, 0),
		isr:     newISR(modelLeader, 0, 10*time.Second),
		entries: map[int32]int64{modelLeader: 1}, nodes: map[int32]*modelNode{},
	}
	for id := int32(2); id <= 4; id++ {
		m.nodes[id] = &modelNode{up: true, epoch: 1, clean: -1}
		if m.random.IntN(2) == 0 {
			m.entries[id] = 1
		}
	}
	m.makeImage()
	m.deliver()
	return m
}

func (m *isrModel) note(format string, args ...any) {
	if m.tells {
		m.trace = append(m.trace, fmt.Sprintf(format, args...))
	}
}

func (m *isrModel) recorded() []int32 { return slices.Sorted(maps.Keys(m.entries)) }

// lasting is who is on record, without those whose end is known, as a store knows it: of a broker
// that is up.
func (m *isrModel) lasting() []int32 {
	return slices.DeleteFunc(m.recorded(),
		func(id int32) bool { n := m.nodes[id]; return n != nil && n.up && n.ended(m.entries[id]) })
}

func (m *isrModel) makeImage() {
	image := modelImage{recorded: m.lasting()}
	for id, n := range m.nodes {
		state := replicaState{broker: id, living: -1, recorded: -1}
		if n.up {
			state.living = n.epoch
		}
		switch epoch, in := m.entries[id]; {
		case in && n.up && n.ended(epoch):
			state.over = epoch + 1
		case in:
			state.recorded = epoch
		}
		image.replicas = append(image.replicas, state)
	}
	m.images = append(m.images, image)
}

// deliver hands an image over, and leaves some out.
func (m *isrModel) deliver() {
	if len(m.images) == 0 {
		return
	}
	at := m.random.IntN(len(m.images))
	image := m.images[at]
	m.images = m.images[at+1:]
	m.isr.image(image.replicas, image.recorded, m.now)
	m.note("image %v", image.recorded)
}

func (m *isrModel) pick() (int32, *modelNode) {
	id := int32(2 + m.random.IntN(3))
	return id, m.nodes[id]
}

// step does one thing.
func (m *isrModel) step() {
	m.now = m.now.Add(time.Duration(m.random.IntN(1500)) * time.Millisecond)
	id, n := m.pick()
	switch m.random.IntN(13) {
	case 0, 1:
		m.end += int64(m.random.IntN(5))
	case 2, 3, 4:
		if n.up { // it copies, and tells with the next fetch
			n.end = min(m.end, n.end+int64(m.random.IntN(8)))
		}
	case 5, 6:
		if n.up {
			m.isr.fetched(metadata.InSync{Broker: id, Epoch: n.epoch}, n.end, m.end, m.now)
		}
	case 7:
		m.crashOrStart(id, n)
	case 8:
		m.makeImage()
	case 9:
		m.deliver()
	case 10:
		m.operator()
	case 11:
		m.land()
	case 12: // it has ended, or the sign is a false one
		m.isr.processEnded(metadata.InSync{Broker: id, Epoch: n.epoch})
		m.note("%d seems to have ended in %d", id, n.epoch)
	}
	m.change()
	m.note("  on record %v, committed %v, doubts %v, seen %v, high watermark %d", m.entries,
		m.isr.committed, m.isr.doubts, m.isr.seen, m.hw)
	m.hw = max(m.hw, min(m.end, m.isr.highWatermark(m.end, m.end, m.now)))
}

// crashOrStart ends a follower, or starts it again; some of its last records may be gone.
func (m *isrModel) crashOrStart(id int32, n *modelNode) {
	if n.up {
		n.up, n.clean = false, -1
		if m.random.IntN(3) == 0 {
			n.clean = n.epoch
			m.note("stop %d, end %d", id, n.end)
			return
		}
		n.end = max(0, n.end-int64(m.random.IntN(4)))
		m.note("crash %d, end %d", id, n.end)
		return
	}
	n.up = true
	n.epoch++
	m.note("start %d in %d after a clean stop of %d", id, n.epoch, n.clean)
}

// operator drops a member that is dead or lives in another incarnation, never the leader, and
// raises one that stopped in order.
func (m *isrModel) operator() {
	for id, epoch := range m.entries {
		n := m.nodes[id]
		if n != nil && n.up && n.clean == epoch {
			m.entries[id] = n.epoch
			m.version++
			m.note("operator raises %d to %d", id, n.epoch)
			return
		}
		if n != nil && (!n.up || n.epoch != epoch) && m.random.IntN(2) == 0 {
			delete(m.entries, id)
			m.version++
			m.note("operator drops %d", id)
			return
		}
	}
}

// land lets a late write arrive, which fails if what it read has changed.
func (m *isrModel) land() {
	if len(m.late) == 0 {
		return
	}
	w := m.late[0]
	m.late = m.late[1:]
	if w.version == m.version && m.now.Sub(w.sent) < doubtMax {
		m.write(w.to)
		m.note("late write %v", w.to)
	}
}

// write puts a set on record. One that says what is there already changes no version: the API
// server's way.
func (m *isrModel) write(to []metadata.InSync) {
	entries := map[int32]int64{}
	for _, member := range to {
		entries[member.Broker] = member.Epoch
	}
	if !maps.Equal(entries, m.entries) {
		m.entries = entries
		m.version++
	}
}

// change is the leader's proposal, and what becomes of it.
func (m *isrModel) change() {
	from, to, ok := m.isr.propose(1, extent{hw: m.hw, end: m.end}, m.now)
	if !ok || m.random.IntN(3) == 0 {
		if ok { // the attempt never left
			m.isr.settled(outcomeUnknown, m.now)
		}
		return
	}
	m.note("propose %v -> %v at hw %d", from, to, m.hw)
	assumed := slices.Sorted(slices.Values(from))
	refused := !slices.Equal(assumed, m.recorded()) && !slices.Equal(assumed, m.lasting())
	for _, member := range to {
		if n := m.nodes[member.Broker]; n != nil && (!n.up || n.epoch != member.Epoch) {
			refused = true
		}
	}
	chance := m.random.IntN(8)
	switch {
	case refused:
		m.isr.settled(outcomeConflict, m.now)
	case chance < 2:
		m.late = append(m.late, lateWrite{m.version, to, m.now})
		m.isr.settled(outcomeUnknown, m.now)
	case chance < 4:
		m.write(to)
		m.isr.settled(outcomeUnknown, m.now)
	default:
		m.write(to)
		m.isr.settled(outcomeDone, m.now)
	}
}

// check holds the invariant: who could be elected has all below the high watermark.
func (m *isrModel) check(t *testing.T, seed uint64) {
	t.Helper()
	for id, epoch := range m.entries {
		if n := m.nodes[id]; n != nil && n.holds(epoch) && n.end < m.hw {
			t.Fatalf(
				"seed %d: broker %d may be elected with %d records, the high watermark is %d\n%s",
				seed,
				id,
				n.end,
				m.hw,
				strings.Join(m.trace, "\n"),
			)
		}
	}
}

// settle is a calm world: everybody lives and fetches, images come, answers arrive.
func (m *isrModel) settle(t *testing.T, seed uint64) {
	t.Helper()
	for range 40 {
		m.now = m.now.Add(time.Second)
		m.land()
		for id, n := range m.nodes {
			if !n.up {
				n.up = true
				n.epoch++
			}
			n.clean = -1
			n.end = m.end
			m.isr.fetched(metadata.InSync{Broker: id, Epoch: n.epoch}, n.end, m.end, m.now)
		}
		for id, epoch := range m.entries {
			if n := m.nodes[id]; n != nil && n.epoch != epoch {
				delete(m.entries, id)
				m.version++
			}
		}
		m.images = nil
		m.makeImage()
		m.deliver()
		if from, to, ok := m.isr.propose(1, extent{hw: m.hw, end: m.end}, m.now); ok {
			if assumed := slices.Sorted(slices.Values(from)); slices.Equal(assumed, m.recorded()) ||
				slices.Equal(assumed, m.lasting()) {
				m.write(to)
				m.isr.settled(outcomeDone, m.now)
			} else {
				m.isr.settled(outcomeConflict, m.now)
			}
		}
		m.hw = max(m.hw, m.isr.highWatermark(m.end, m.end, m.now))
	}
	if !slices.Equal(m.recorded(), []int32{1, 2, 3, 4}) || m.hw != m.end {
		t.Fatalf("seed %d: after a calm time %v are in sync, the high watermark is %d of %d\n%s",
			seed, m.recorded(), m.hw, m.end, strings.Join(m.trace, "\n"))
	}
}

// TestISRModel: nobody can be elected who lacks what is below the high watermark, whatever is lost
// or late; and once nothing is, all are in sync again.
func TestISRModel(t *testing.T) {
	_, alone := seed.Alone(t)
	for seed := range seed.Sequence(t, *isrRuns) {
		m := newISRModel(seed)
		m.tells = alone
		for range 300 {
			m.step()
			m.check(t, seed)
		}
		m.settle(t, seed)
	}
}
