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

var modelRuns = flag.Int("group.runs", 150, "random lives of a group")

// world plays clients, clock, log and failovers around a State, and knows what each client was
// told.
type world struct {
	t       *testing.T
	random  *rand.Rand
	state   *State
	now     time.Time
	timers  map[TimerKey]time.Time
	log     []Record
	token   Token
	asked   map[Token]*client // who waits
	clients []*client
	named   int

	// What members were told: of each generation in one coordinator's life who is in it, and with
	// which protocol and leader; what the leader assigned is a function of generation and member,
	// so nobody may be told anything else.
	told map[int32]string
	life int
}

// client is a consumer: it joins, syncs, beats, commits, dies.
type client struct {
	instance   string
	id         string
	generation int32
	leader     bool
	members    []JoinedMember
	assigned   string // "": it has no assignment
	waiting    bool
	fenced     bool // another has its instance
	dead       bool
}

func (w *world) Set(key TimerKey, d time.Duration) { w.timers[key] = w.now.Add(d) }
func (w *world) Clear(key TimerKey)                { delete(w.timers, key) }

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 0)), now: time.Unix(1_700_000_000, 0),
		asked: map[Token]*client{},
	}
	w.failover()
	return w
}

// failover throws the State away, and makes one of the log.
func (w *world) failover() {
	w.timers, w.told = map[TimerKey]time.Time{}, map[int32]string{}
	w.life++
	w.state = New(Config{SessionMin: time.Second}, w)
	for _, r := range w.log {
		if _, err := w.state.Replay(w.now, r.Key, r.Value); err != nil {
			w.t.Fatal(err)
		}
	}
	w.state.Loaded(w.now)
	if g := w.state.groups["g"]; g != nil {
		for _, c := range w.clients {
			// its successor had joined, and no generation with it was stored
			c.fenced = c.fenced && g.instances[c.instance] != c.id
		}
	}
	for token, c := range w.asked {
		c.waiting, c.generation, c.assigned = false, 0, ""
		delete(w.asked, token)
	}
}

// settle does what the shell does.
func (w *world) settle(out Output) {
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
		c := w.asked[a.To]
		if c == nil {
			w.t.Fatalf("token %d is answered twice, or was never asked", a.To)
		}
		delete(w.asked, a.To)
		c.waiting = false
		w.answered(c, a)
	}
}

func assignment(life int, generation int32, member string) string {
	return fmt.Sprint(life, "/", generation, "/", member)
}

// answered lets a client learn, and holds what it is told against what others were.
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
			w.t.Fatalf("a member of generation %d has no assignment", c.generation)
		}
	}
}

func (w *world) joined(c *client, j Joined) {
	if c.generation != j.Generation {
		c.assigned = "" // until it has synced
	}
	c.id, c.generation, c.leader, c.members = j.Member, j.Generation,
		j.Leader == j.Member && !j.SkipAssignment, j.Members
	said := fmt.Sprint(j.ProtocolType, j.Protocol)
	if before, known := w.told[j.Generation]; known && before != said {
		w.t.Fatalf("generation %d is %s and %s", j.Generation, before, said)
	}
	w.told[j.Generation] = said
	if c.leader && !slices.ContainsFunc(j.Members,
		func(m JoinedMember) bool { return m.ID == c.id }) {
		w.t.Fatalf("the leader of generation %d is not in it", j.Generation)
	}
}

// step lets one thing happen.
func (w *world) step() {
	c := w.clients[w.random.IntN(len(w.clients))]
	if c.waiting && w.random.IntN(4) > 0 {
		w.advance()
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
	case n < 86: // the process dies, and another takes its name
		*c = client{instance: c.instance}
		for token, asker := range w.asked {
			if asker == c {
				w.asked[token] = &client{dead: true}
			}
		}
	default:
		w.advance()
	}
}

func (w *world) ask(c *client) Token {
	w.token++
	w.asked[w.token] = c
	c.waiting = true
	return w.token
}

func (w *world) join(c *client) {
	w.named++
	takes := c.instance != "" && c.id == ""
	names := []string{"range", "sticky", "hash"}[w.random.IntN(2):]
	var protocols []Protocol
	for _, name := range names {
		protocols = append(protocols, Protocol{name, []byte{byte(w.random.IntN(2))}})
	}
	w.settle(w.state.Join(w.now, Join{
		To: w.ask(c), Group: "g", Member: c.id, Instance: c.instance,
		NewMember: fmt.Sprint("m", w.named), Session: 10 * time.Second,
		Rebalance: 30 * time.Second, ProtocolType: "consumer", Protocols: protocols, IDFirst: true,
		MaySkip: w.random.IntN(2) == 0,
	}))
	if takes && (c.waiting || c.id != "") { // it was not refused
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
	s := Sync{To: w.ask(c), Group: "g", Member: c.id, Instance: c.instance,
		Generation: c.generation, Assignments: map[string][]byte{}}
	if c.leader {
		for _, m := range c.members {
			s.Assignments[m.ID] = []byte(assignment(w.life, c.generation, m.ID))
		}
	}
	w.settle(w.state.Sync(w.now, s))
}

func (w *world) heartbeat(c *client) {
	err := w.state.Heartbeat(w.now, "g", c.id, c.instance, c.generation)
	if err != nil {
		c.assigned = ""
	}
	if c.fenced && err == nil {
		w.t.Fatalf("a fenced member's heartbeat is taken")
	}
}

// commit must be refused of all but those who are in the generation that the group is in.
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
	w.settle(out)
	g := w.state.groups["g"]
	if err == nil && errs[0] == nil {
		got, _ := w.state.Committed("g", "t", offset.Partition)
		if got.Offset != offset.Offset.Offset {
			w.t.Fatalf("committed %d, fetched %d", offset.Offset.Offset, got.Offset)
		}
		if c.id != "" && (c.fenced || g.byID[c.id] == nil || g.generation != c.generation) {
			w.t.Fatalf("a commit of %+v is taken in generation %d", c, g.generation)
		}
		if c.id == "" && len(g.members) > 0 && g.phase != preparing {
			w.t.Fatal("a stranger's commit is taken while the group has members")
		}
	}
}

func (w *world) leave(c *client) {
	_, out := w.state.Leave(w.now, "g", []Leaver{{c.id, c.instance}})
	w.settle(out)
	c.id, c.generation, c.assigned = "", 0, ""
}

// advance lets time pass, and timers go off, also too early, which must do no harm.
func (w *world) advance() {
	w.now = w.now.Add(time.Duration(w.random.IntN(4000)) * time.Millisecond)
	var due []TimerKey
	for key, at := range w.timers {
		if !at.After(w.now) || w.random.IntN(10) == 0 {
			due = append(due, key)
		}
	}
	slices.SortFunc(due, func(a, b TimerKey) int { return cmp.Compare(a.Member, b.Member) })
	for _, key := range due {
		if at, set := w.timers[key]; set {
			if !at.After(w.now) {
				delete(w.timers, key)
			}
			w.settle(w.state.Fire(w.now, key))
		}
	}
}

// check is what holds between any two steps.
func (w *world) check() {
	g := w.state.groups["g"]
	for _, c := range w.clients {
		if c.assigned == "" || g == nil {
			continue
		}
		// What it was given is for it, of its generation; a static member may go on with its
		// predecessor's.
		_, of, _ := strings.Cut(c.assigned, "/")
		if want := fmt.Sprint(c.generation, "/", c.id); c.instance == "" && of != want {
			w.t.Fatalf("%s was given %s", want, c.assigned)
		}
	}
	if g == nil {
		return
	}
	if len(g.members) != len(g.byID) || g.phase == empty && len(g.members) > 0 ||
		g.phase == stable && g.byID[g.leader] == nil && g.leader != "" {
		w.t.Fatalf("group %+v", g)
	}
	size := 0
	for _, m := range g.members {
		size += m.sizeBytes()
		if g.phase == stable && (m.joining != 0 || m.syncing != 0) {
			w.t.Fatalf("%s waits in a stable group", m.id)
		}
		if _, timed := w.timers[TimerKey{"g", m.id}]; !timed && m.joining == 0 && m.syncing == 0 {
			w.t.Fatalf("%s has no timer in %s", m.id, g.phase)
		}
	}
	if size != g.sizeBytes {
		w.t.Fatalf("size %d, counted %d", size, g.sizeBytes)
	}
	if _, timed := w.timers[TimerKey{Group: "g"}]; !timed &&
		(g.phase == preparing || g.phase == completing) {
		w.t.Fatalf("%s without a timer", g.phase)
	}
}

// TestRandomLives lets clients do anything in any order, with deaths, failovers and timers that go
// off early. Whoever waits is answered in the end.
func TestRandomLives(t *testing.T) {
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
				if len(w.asked) == 0 {
					return
				}
				w.advance()
				w.check()
			}
			t.Fatalf("%d are never answered", len(w.asked))
		})
	}
}
