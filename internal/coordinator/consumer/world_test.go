package consumer

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// world simulates a Group's environment: the cluster's topics, consumers, the network, the clock,
// the log and failovers.
type world struct {
	t         *testing.T
	random    *rand.Rand
	now       time.Time
	log       []Record
	group     *Group
	topics    map[string]Topic
	snapshot  *Topics
	clients   []*client
	nextID    int
	faultless bool          // true if the world injects no faults
	interval  time.Duration // value of Config.Assignment
}

// client is a KIP-848 consumer. It has at most one heartbeat in flight. If that heartbeat lists the
// owned partitions, the coordinator relies on the list. Therefore the client does not start to
// consume further partitions before the answer arrives, not even partitions from an earlier answer.
type client struct {
	id, instance string
	topics       []string
	expression   string
	assignor     string

	epoch   int32               // epoch in the last answer; 0 if the client must join
	owned   assignor.Assignment // partitions that the client consumes
	granted assignor.Assignment // assignment in the last answer; nil if it is already applied
	// sendFull is true if the next heartbeat must have all fields, because an answer was lost.
	sendFull bool
	reported bool       // true if the coordinator has received the current value of owned
	sent     *Heartbeat // heartbeat in flight
	timedOut bool       // true if the client no longer waits for the answer to sent
	dead     bool       // true if the process has exited
}

var config = Config{Session: 45 * time.Second, Interval: 5 * time.Second, MembersMax: 5,
	RecordBytesMax: 1 << 20}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1_700_000_000, 0),
		topics: map[string]Topic{}}
	w.create("t0", 4)
	w.failover()
	return w
}

func (w *world) create(name string, partitions int) {
	w.nextID++
	w.topics[name] = Topic{ID: assignor.TopicID{byte(w.nextID >> 8), byte(w.nextID)}, Name: name,
		Partitions: partitions}
	w.takeSnapshot()
}

// takeSnapshot sets w.snapshot to a new snapshot of w.topics.
func (w *world) takeSnapshot() {
	topics := maps.Clone(w.topics)
	w.snapshot = &Topics{
		ByName: func(name string) (Topic, bool) { topic, ok := topics[name]; return topic, ok },
		All:    maps.Values(topics),
	}
}

// failover replaces the Group with a new one that it loads from the log.
func (w *world) failover() {
	w.group = New("g", true)
	for _, r := range w.log {
		w.replay(r)
	}
	w.group.Loaded(w.now, config.Session)
}

func (w *world) replay(r Record) {
	w.t.Helper()
	k, err := ReadKey(r.Key)
	if err == nil {
		err = w.group.Replay(w.now, config.Session, k, r.Value)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// compact compacts the log up to a random offset. Like the cleaner, it keeps each key's last
// record, and some tombstones.
func (w *world) compact() {
	upTo, last := w.random.IntN(len(w.log)+1), map[string]int{}
	for i, r := range w.log[:upTo] {
		last[string(r.Key)] = i
	}
	var kept []Record
	for i, r := range w.log {
		if i >= upTo || last[string(r.Key)] == i && (r.Value != nil || w.random.IntN(2) == 0) {
			kept = append(kept, r)
		}
	}
	w.log = kept
}

var errCrashed = errors.New("the coordinator crashed, or could not store")

// store appends records and replays them. Unless the world is faultless, it sometimes stores only
// the first few records and fails over, or stores no record.
func (w *world) store(records []Record) error {
	if len(records) > 0 && !w.faultless && w.random.IntN(30) == 0 {
		w.log = append(w.log, records[:w.random.IntN(len(records)+1)]...)
		w.failover()
		return errCrashed
	}
	if len(records) > 0 && !w.faultless && w.random.IntN(30) == 0 {
		return errCrashed // the append fails, and the coordinator keeps its state
	}
	for _, r := range records {
		w.log = append(w.log, r)
		w.replay(r)
	}
	return nil
}

// send creates a client's next heartbeat.
func (w *world) send(c *client) {
	h := &Heartbeat{Group: "g", Member: c.id, Epoch: c.epoch, Rebalance: -1, ClientID: "client"}
	if c.instance != "" {
		h.Instance = &c.instance
	}
	if c.epoch == EpochJoin || c.sendFull || !c.reported && c.granted != nil ||
		w.random.IntN(10) == 0 {
		h.Rebalance, h.Topics, h.Owned = time.Minute, append([]string{}, c.topics...),
			maps.Clone(c.owned)
		h.Expression, h.Assignor = &c.expression, &c.assignor
	}
	if !c.reported {
		h.Owned = maps.Clone(c.owned)
	}
	if h.Owned != nil {
		c.granted = nil // the answer to this heartbeat contains a newer assignment
	}
	c.sent, c.timedOut, c.sendFull = h, false, false
}

// deliver delivers the heartbeat in flight to the coordinator, and its answer to the client unless
// the answer is lost.
func (w *world) deliver(c *client) {
	h := c.sent
	c.sent = nil
	answer, _, err := w.handle(h)
	w.check()
	lost := c.timedOut || !w.faultless && w.random.IntN(8) == 0 || errors.Is(err, errCrashed)
	switch {
	case lost:
		c.sendFull, c.reported = true, false
	case errors.Is(err, ErrFencedEpoch),
		errors.Is(err, ErrUnknownMember),
		errors.Is(err, ErrFencedInstance):
		c.resetMembership()
	case errors.Is(err, ErrUnreleasedInstance), errors.Is(err, ErrFull):
	case err != nil:
		w.t.Fatalf("%+v: %v", h, err)
	case h.Epoch < EpochJoin:
	default:
		c.epoch = answer.Epoch
		c.reported = c.reported || h.Owned != nil &&
			maps.EqualFunc(h.Owned, c.owned, slices.Equal[[]int32])
		if answer.Assignment != nil {
			c.granted = answer.Assignment
		}
	}
}

func (w *world) handle(h *Heartbeat) (answer Answer, records []Record, err error) {
	if err := h.Check(); err != nil {
		w.t.Fatalf("%+v: %v", h, err)
	}
	if h.Epoch < EpochJoin {
		answer, records, err = w.group.Leave(h)
	} else {
		c := config
		c.Assignment = w.interval
		answer, records, err = w.group.Heartbeat(w.now, h, w.snapshot, c)
	}
	w.checkInterval(records)
	if err == nil {
		err = w.store(records)
	}
	return answer, records, err
}

// checkInterval fails if records contain an assignment and the previous assignment was stored less
// than the minimum interval ago.
func (w *world) checkInterval(records []Record) {
	w.t.Helper()
	for _, r := range records {
		if k, err := ReadKey(r.Key); err != nil || k.Kind != kindAssignment {
			continue
		}
		last := time.UnixMilli(w.group.assignedMs)
		if age := w.now.Sub(last); w.group.assignmentEpoch > 0 && age >= 0 && age < w.interval {
			w.t.Fatalf("assignment %v after the last one, want at least %v", w.now.Sub(last),
				w.interval)
		}
	}
}

// resetMembership makes the client assume that it is no longer a member: it stops consuming all
// partitions and will join again.
func (c *client) resetMembership() {
	c.epoch, c.owned, c.granted, c.reported, c.sendFull = EpochJoin, assignor.Assignment{}, nil,
		false,
		false
}

// applyAssignment applies the assignment in the last answer. The first call only stops consuming
// partitions that are not in the assignment. The next call starts consuming the new partitions.
func (w *world) applyAssignment(c *client) {
	kept := assignor.Assignment{}
	for topic, partitions := range c.owned {
		for _, partition := range partitions {
			if c.granted.Has(topic, partition) {
				kept[topic] = append(kept[topic], partition)
			}
		}
	}
	if !kept.Equal(c.owned) {
		c.owned, c.reported = kept, false
		return
	}
	if c.sent != nil && c.sent.Owned != nil {
		return
	}
	if !c.owned.Equal(c.granted) {
		c.reported = false
	}
	c.owned, c.granted = maps.Clone(c.granted), nil
}

// advanceTime advances the clock and removes members whose timeouts have expired.
func (w *world) advanceTime(d time.Duration) {
	w.now = w.now.Add(d)
	for range 100 { // repeated because store can fail
		late := ""
		for id := range w.group.MemberIDs() {
			if due, ok := w.group.Due(id); ok && !due.After(w.now) && (late == "" || id < late) {
				late = id
			}
		}
		if late == "" {
			return
		}
		records := w.group.Expire(w.now, late)
		if records == nil {
			w.t.Fatalf("the timeout of %s has expired, but Expire returned no records", late)
		}
		_ = w.store(records)
		w.check()
	}
}

// check verifies the invariants that hold after every step: no partition has two owners, and a
// client consumes only partitions that its member owns. So two clients never consume the same
// partition.
func (w *world) check() {
	w.t.Helper()
	owners := map[string]string{}
	g := w.group
	for id, m := range g.members {
		for _, owned := range []Owned{m.Assigned, m.Revoking} {
			for topic, partitions := range owned {
				for partition := range partitions {
					key := fmt.Sprint(topic, partition)
					if other, taken := owners[key]; taken && !w.isAway(other) && !w.isAway(id) {
						w.t.Fatalf("%s is owned by %s and %s", key, id, other)
					}
					owners[key] = id
				}
			}
		}
		if m.Epoch > g.assignmentEpoch || g.assignmentEpoch > g.epoch {
			w.t.Fatalf("%s is in epoch %d, the targets in %d, the group in %d", id, m.Epoch,
				g.assignmentEpoch,
				g.epoch)
		}
		if m.Phase != Unrevoked && len(m.Revoking) > 0 {
			w.t.Fatalf("%s must revoke %v in phase %d", id, m.Revoking, m.Phase)
		}
	}
	for _, c := range w.clients {
		m := g.members[c.id]
		if c.dead || m == nil {
			continue
		}
		for topic, partitions := range c.owned {
			for _, partition := range partitions {
				_, assigned := m.Assigned[topic][partition]
				_, revoking := m.Revoking[topic][partition]
				if !assigned && !revoking {
					w.t.Fatalf("%s consumes %v %d, which it does not own: %+v", c.id, topic[:2],
						partition, m.Current)
				}
			}
		}
	}
}

// isAway reports whether a member is a static member that has left temporarily. If the coordinator
// crashed while a successor replaced the member, the member and its successor own the same
// partitions.
func (w *world) isAway(id string) bool { return w.group.members[id].Epoch == EpochLeaveStatic }
