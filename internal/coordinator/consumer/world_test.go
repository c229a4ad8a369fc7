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

// world plays a cluster's topics, consumers, the network, the clock, the log and failovers around a
// Group.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     time.Time
	log     []Record
	group   *Group
	topics  map[string]Topic
	shown   *Topics
	clients []*client
	named   int
	calm    bool // nothing fails any more
}

// client is a consumer as KIP-848 has it. It has one heartbeat on its way at most. What one says
// that it has it is taken at its word for: so it takes nothing more before that heartbeat is
// answered, and nothing that an answer before it said.
type client struct {
	id, instance string
	topics       []string
	expression   string
	assignor     string

	epoch    int32               // as it was told; 0: it has to join
	owned    assignor.Assignment // partitions that it consumes
	granted  assignor.Assignment // that it was told; nil: no news
	complete bool                // its next heartbeat says everything, because an answer was lost
	said     bool                // the coordinator was told of owned as it is now
	sent     *Heartbeat          // on its way, or in the coordinator's queue
	deaf     bool                // it does not wait for the answer any more
	dead     bool                // the process is gone
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
	w.named++
	w.topics[name] = Topic{ID: assignor.TopicID{byte(w.named >> 8), byte(w.named)}, Name: name,
		Partitions: partitions}
	w.show()
}

// show makes the next image of the topics.
func (w *world) show() {
	topics := maps.Clone(w.topics)
	w.shown = &Topics{
		ByName: func(name string) (Topic, bool) { topic, ok := topics[name]; return topic, ok },
		All:    maps.Values(topics),
	}
}

// failover throws the Group away and makes one of the log.
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

// compact cleans a part of the log, as the cleaner does: the last of each key stays, and of
// tombstones some.
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

// store appends and replays; now and then the coordinator crashes with a part of the records
// stored.
func (w *world) store(records []Record) error {
	if len(records) > 0 && !w.calm && w.random.IntN(30) == 0 {
		w.log = append(w.log, records[:w.random.IntN(len(records)+1)]...)
		w.failover()
		return errCrashed
	}
	if len(records) > 0 && !w.calm && w.random.IntN(30) == 0 {
		return errCrashed // nothing is stored, and the coordinator lives on
	}
	for _, r := range records {
		w.log = append(w.log, r)
		w.replay(r)
	}
	return nil
}

// send has a client send a heartbeat.
func (w *world) send(c *client) {
	h := &Heartbeat{Group: "g", Member: c.id, Epoch: c.epoch, Rebalance: -1, ClientID: "client"}
	if c.instance != "" {
		h.Instance = &c.instance
	}
	if c.epoch == EpochJoin || c.complete || !c.said && c.granted != nil || w.random.IntN(10) == 0 {
		h.Rebalance, h.Topics, h.Owned = time.Minute, append([]string{}, c.topics...),
			maps.Clone(c.owned)
		h.Expression, h.Assignor = &c.expression, &c.assignor
	}
	if !c.said {
		h.Owned = maps.Clone(c.owned)
	}
	if h.Owned != nil {
		c.granted = nil // the answer has what it may take, if it comes
	}
	c.sent, c.deaf, c.complete = h, false, false
}

// deliver has the coordinator take a heartbeat, whose answer may be lost.
func (w *world) deliver(c *client) {
	h := c.sent
	c.sent = nil
	answer, records, err := w.ask(h)
	w.check()
	lost := c.deaf || !w.calm && w.random.IntN(8) == 0 || errors.Is(err, errCrashed)
	_ = records
	switch {
	case lost:
		c.complete, c.said = true, false
	case errors.Is(err, ErrFencedEpoch),
		errors.Is(err, ErrUnknownMember),
		errors.Is(err, ErrFencedInstance):
		c.abandon()
	case errors.Is(err, ErrUnreleasedInstance), errors.Is(err, ErrFull):
	case err != nil:
		w.t.Fatalf("%+v: %v", h, err)
	case h.Epoch < EpochJoin:
	default:
		c.epoch = answer.Epoch
		c.said = c.said || h.Owned != nil && maps.EqualFunc(h.Owned, c.owned, slices.Equal[[]int32])
		if answer.Assignment != nil {
			c.granted = answer.Assignment
		}
	}
}

func (w *world) ask(h *Heartbeat) (answer Answer, records []Record, err error) {
	if err := h.Check(); err != nil {
		w.t.Fatalf("%+v: %v", h, err)
	}
	if h.Epoch < EpochJoin {
		answer, records, err = w.group.Leave(h)
	} else {
		answer, records, err = w.group.Heartbeat(w.now, h, w.shown, config)
	}
	if err == nil {
		err = w.store(records)
	}
	return answer, records, err
}

// abandon is of one that is told that it is no member: what it has is lost, and it joins anew.
func (c *client) abandon() {
	c.epoch, c.owned, c.granted, c.said, c.complete = EpochJoin, assignor.Assignment{}, nil, false,
		false
}

// adopt has a client give up what it has to, and then take what it may.
func (w *world) adopt(c *client) {
	kept := assignor.Assignment{}
	for topic, partitions := range c.owned {
		for _, partition := range partitions {
			if c.granted.Has(topic, partition) {
				kept[topic] = append(kept[topic], partition)
			}
		}
	}
	if !kept.Equal(c.owned) {
		c.owned, c.said = kept, false
		return
	}
	if c.sent != nil && c.sent.Owned != nil {
		return
	}
	if !c.owned.Equal(c.granted) {
		c.said = false
	}
	c.owned, c.granted = maps.Clone(c.granted), nil
}

// advance lets time pass, and members be out.
func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(d)
	for range 100 { // a removal that cannot be stored is tried again
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
			w.t.Fatalf("%s is due and does not go", late)
		}
		_ = w.store(records)
		w.check()
	}
}

// check is what holds between any two steps: no partition is two members', and what a client
// consumes is its own as long as the coordinator knows it. So no partition is consumed by two that
// are members.
func (w *world) check() {
	w.t.Helper()
	owners := map[string]string{}
	g := w.group
	for id, m := range g.members {
		for _, owned := range []Owned{m.Assigned, m.Revoking} {
			for topic, partitions := range owned {
				for partition := range partitions {
					at := fmt.Sprint(topic, partition)
					if other, taken := owners[at]; taken && !w.away(other) && !w.away(id) {
						w.t.Fatalf("%s is of %s and %s", at, id, other)
					}
					owners[at] = id
				}
			}
		}
		if m.Epoch > g.assignmentEpoch || g.assignmentEpoch > g.epoch {
			w.t.Fatalf("%s is in epoch %d, targets %d, group %d", id, m.Epoch, g.assignmentEpoch,
				g.epoch)
		}
		if m.Phase != Unrevoked && len(m.Revoking) > 0 {
			w.t.Fatalf("%s is to revoke %v in phase %d", id, m.Revoking, m.Phase)
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
					w.t.Fatalf("%s consumes %v %d, which is not its: %+v", c.id, topic[:2],
						partition, m.Current)
				}
			}
		}
	}
}

// away tells whether a member is a static one that has left for a while: its successor may have
// taken over what it had, in the middle of which the coordinator crashed.
func (w *world) away(id string) bool { return w.group.members[id].Epoch == EpochLeaveStatic }
