package group

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/test/kit/seed"
)

var modelRuns = flag.Int("group.runs", 150, "number of random runs")

// world simulates a State's environment: clients, the clock, the log and failovers. It stores the
// answers that each client has received.
type world struct {
	t        *testing.T
	random   *rand.Rand
	state    *State
	now      time.Time
	timers   map[TimerKey]time.Time
	log      []Record
	token    Token
	requests map[Token]*client // clients that sent the waiting requests
	clients  []*client
	nextID   int

	// generations maps each generation to the protocol in its members' answers since the last
	// failover. All members of a generation must receive the same protocol.
	generations map[int32]string
	epoch       int
}

// client is a consumer. It joins, syncs, sends heartbeats, commits and crashes.
type client struct {
	instance   string
	id         string
	generation int32
	leader     bool
	members    []JoinedMember
	assigned   string // assignment in the answer to the last Sync; "" if there is none
	waiting    bool
	fenced     bool // true if another client has joined with its instance id
	dead       bool
}

func (w *world) Set(key TimerKey, d time.Duration) { w.timers[key] = w.now.Add(d) }
func (w *world) Clear(key TimerKey)                { delete(w.timers, key) }

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1_700_000_000, 0),
		requests: map[Token]*client{},
	}
	w.failover()
	return w
}

// failover replaces the State with a new one that it loads from the log.
func (w *world) failover() {
	w.timers, w.generations = map[TimerKey]time.Time{}, map[int32]string{}
	w.epoch++
	w.state = New(Config{SessionMin: time.Second}, w)
	for _, r := range w.log {
		if _, err := w.state.Replay(w.now, r.Key, r.Value); err != nil {
			w.t.Fatal(err)
		}
	}
	w.state.Loaded(w.now)
	if g := w.state.groups["g"]; g != nil {
		for _, c := range w.clients {
			// A client stays fenced only if the log contains a generation in which another member has its
			// instance id.
			c.fenced = c.fenced && g.instances[c.instance] != c.id
		}
	}
	for token, c := range w.requests {
		c.waiting, c.generation, c.assigned = false, 0, ""
		delete(w.requests, token)
	}
}

// apply processes an output as the runtime does: it appends and replays the records, and delivers
// the answers.
func (w *world) apply(out Output) {
	answers := out.Answers
	for _, r := range out.Records {
		w.log = append(w.log, r)
		more, err := w.state.Replay(w.now, r.Key, r.Value)
		if err != nil {
			w.t.Fatal(err)
		}
		answers = append(answers, more...)
	}
	for _, a := range answers {
		c := w.requests[a.To]
		if c == nil {
			w.t.Fatalf("token %d was answered twice, or belongs to no request", a.To)
		}
		delete(w.requests, a.To)
		c.waiting = false
		w.answered(c, a)
	}
}

func assignment(epoch int, generation int32, member string) string {
	return fmt.Sprint(epoch, "/", generation, "/", member)
}

// answered updates a client with an answer, and compares the answer with other clients' answers.
func (w *world) answered(c *client, a Answer) {
	switch {
	case errors.Is(a.Err, ErrMemberIDRequired):
		c.id = a.Result.Joined.Member
	case errors.Is(a.Err, ErrUnknownMember), errors.Is(a.Err, ErrFencedInstance):
		c.id, c.generation, c.assigned = "", 0, ""
	case a.Err != nil:
		c.assigned = ""
	case a.Result.Joined.Member != "":
		w.joined(c, a.Result.Joined)
	default:
		if c.assigned = string(a.Result.Synced.Assignment); c.assigned == "" {
			w.t.Fatalf("a member of generation %d got no assignment", c.generation)
		}
	}
}

func (w *world) joined(c *client, j Joined) {
	if c.generation != j.Generation {
		c.assigned = "" // the answer to a Sync will contain the new generation's assignment
	}
	c.id, c.generation, c.leader, c.members = j.Member, j.Generation,
		j.Leader == j.Member && !j.SkipAssignment, j.Members
	protocol := fmt.Sprint(j.ProtocolType, j.Protocol)
	if before, known := w.generations[j.Generation]; known && before != protocol {
		w.t.Fatalf("generation %d: got protocol %s, want %s as in an earlier answer", j.Generation,
			protocol, before)
	}
	w.generations[j.Generation] = protocol
	if c.leader && !slices.ContainsFunc(j.Members,
		func(m JoinedMember) bool { return m.ID == c.id }) {
		w.t.Fatalf("generation %d: the members lack the leader %s", j.Generation, c.id)
	}
}

// step performs one random action.
func (w *world) step() {
	c := w.clients[w.random.IntN(len(w.clients))]
	if c.waiting && w.random.IntN(4) > 0 {
		w.advanceTime()
		return
	}
	switch n := w.random.IntN(100); {
	case n < 30:
		w.join(c)
	case n < 55:
		w.sync(c)
	case n < 65:
		w.heartbeat(c)
	case n < 75:
		w.commit(c)
	case n < 80:
		w.leave(c)
	case n < 82:
		w.failover()
	case n < 86: // the process crashes; a new process has the same instance id
		*c = client{instance: c.instance}
		for token, requester := range w.requests {
			if requester == c {
				w.requests[token] = &client{dead: true}
			}
		}
	default:
		w.advanceTime()
	}
}

func (w *world) request(c *client) Token {
	w.token++
	w.requests[w.token] = c
	c.waiting = true
	return w.token
}

func (w *world) join(c *client) {
	w.nextID++
	takesInstance := c.instance != "" && c.id == ""
	names := []string{"range", "sticky", "hash"}[w.random.IntN(2):]
	var protocols []Protocol
	for _, name := range names {
		protocols = append(protocols, Protocol{name, []byte{byte(w.random.IntN(2))}})
	}
	w.apply(w.state.Join(w.now, Join{
		To: w.request(c), Group: "g", Member: c.id, Instance: c.instance,
		NewMember: fmt.Sprint("m", w.nextID), Session: 10 * time.Second,
		Rebalance: 30 * time.Second, ProtocolType: "consumer", Protocols: protocols,
		RequireMemberID:   true,
		CanSkipAssignment: w.random.IntN(2) == 0,
	}))
	if takesInstance && (c.waiting || c.id != "") { // the join was not rejected
		for _, other := range w.clients {
			other.fenced = other.fenced || other != c && other.instance == c.instance &&
				other.id != ""
		}
		c.fenced = false
	}
}

func (w *world) sync(c *client) {
	if c.id == "" || c.generation == 0 {
		return
	}
	s := Sync{To: w.request(c), Group: "g", Member: c.id, Instance: c.instance,
		Generation: c.generation, Assignments: map[string][]byte{}}
	if c.leader {
		for _, m := range c.members {
			s.Assignments[m.ID] = []byte(assignment(w.epoch, c.generation, m.ID))
		}
	}
	w.apply(w.state.Sync(w.now, s))
}

func (w *world) heartbeat(c *client) {
	err := w.state.Heartbeat(w.now, "g", c.id, c.instance, c.generation)
	if err != nil {
		c.assigned = ""
	}
	if c.fenced && err == nil {
		w.t.Fatal("the heartbeat of a fenced member was accepted")
	}
}

// commit commits an offset, and checks that the State accepts only commits from members of the
// current generation.
func (w *world) commit(c *client) {
	generation := c.generation
	if c.id == "" {
		generation = -1
	}
	offset := CommitOffset{Topic: "t", Partition: int32(w.random.IntN(3)),
		Offset: Offset{Offset: int64(len(w.log)), LeaderEpoch: -1, ExpireMs: -1}}
	errs, out, err := w.state.Commit(w.now, Commit{
		Group: "g", Member: c.id, Instance: c.instance, Generation: generation,
		Offsets: []CommitOffset{offset},
	})
	w.apply(out)
	g := w.state.groups["g"]
	if err == nil && errs[0] == nil {
		got, _ := w.state.Committed("g", "t", offset.Partition)
		if got.Offset != offset.Offset.Offset {
			w.t.Fatalf("got committed offset %d, want %d", got.Offset, offset.Offset.Offset)
		}
		if c.id != "" && (c.fenced || g.byID[c.id] == nil || g.generation != c.generation) {
			w.t.Fatalf("a commit of %+v was accepted in generation %d", c, g.generation)
		}
		if c.id == "" && len(g.members) > 0 && g.phase != preparing {
			w.t.Fatal("a commit without membership was accepted while the group has members")
		}
	}
}

func (w *world) leave(c *client) {
	_, out := w.state.Leave(w.now, "g", []Leaver{{c.id, c.instance}})
	w.apply(out)
	c.id, c.generation, c.assigned = "", 0, ""
}

// advanceTime advances the clock and fires expired timers. It also fires some timers too early,
// which must have no effect.
func (w *world) advanceTime() {
	w.now = w.now.Add(time.Duration(w.random.IntN(4000)) * time.Millisecond)
	var due []TimerKey
	for key, moment := range w.timers {
		if !moment.After(w.now) || w.random.IntN(10) == 0 {
			due = append(due, key)
		}
	}
	slices.SortFunc(due, func(a, b TimerKey) int { return cmp.Compare(a.Member, b.Member) })
	for _, key := range due {
		if moment, set := w.timers[key]; set {
			if !moment.After(w.now) {
				delete(w.timers, key)
			}
			w.apply(w.state.Fire(w.now, key))
		}
	}
}

// check verifies the invariants that hold after every step.
func (w *world) check() {
	g := w.state.groups["g"]
	for _, c := range w.clients {
		if c.assigned == "" || g == nil {
			continue
		}
		// A client must have the assignment of its own member id in its generation. A static member may
		// also have the assignment of the member that it replaced.
		_, source, _ := strings.Cut(c.assigned, "/")
		if want := fmt.Sprint(c.generation, "/", c.id); c.instance == "" && source != want {
			w.t.Fatalf("%s has the assignment %s", want, c.assigned)
		}
	}
	if g == nil {
		return
	}
	if len(g.members) != len(g.byID) || g.phase == empty && len(g.members) > 0 ||
		g.phase == stable && g.byID[g.leader] == nil && g.leader != "" {
		w.t.Fatalf("inconsistent group %+v", g)
	}
	size := 0
	for _, m := range g.members {
		size += m.sizeBytes()
		if g.phase == stable && (m.joining != 0 || m.syncing != 0) {
			w.t.Fatalf("%s waits although the group is stable", m.id)
		}
		if _, timed := w.timers[TimerKey{"g", m.id}]; !timed && m.joining == 0 && m.syncing == 0 {
			w.t.Fatalf("%s has no session timer in phase %s", m.id, g.phase)
		}
	}
	if size != g.sizeBytes {
		w.t.Fatalf("sizeBytes of the group: got %d, want %d as the sum of the members",
			g.sizeBytes, size)
	}
	if _, timed := w.timers[TimerKey{Group: "g"}]; !timed &&
		(g.phase == preparing || g.phase == completing) {
		w.t.Fatalf("phase %s has no timer", g.phase)
	}
}

// TestRandomHistories checks that all requests are answered in the end, while clients act in random
// order, with crashes, failovers and timers that fire too early.
func TestRandomHistories(t *testing.T) {
	for seed := range seed.Sequence(t, *modelRuns) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for i := range 2 + w.random.IntN(5) {
				c := &client{}
				if i%3 == 1 {
					c.instance = fmt.Sprint("i", w.random.IntN(2))
				}
				w.clients = append(w.clients, c)
			}
			for range 400 {
				w.step()
				w.check()
			}
			for range 1000 {
				if len(w.requests) == 0 {
					return
				}
				w.advanceTime()
				w.check()
			}
			t.Fatalf("%d requests were never answered", len(w.requests))
		})
	}
}
