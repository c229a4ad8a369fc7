package consumer

import (
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
	"heartwood.dev/heartwood/test/kit/seed"
)

var modelRuns = flag.Int("consumer.runs", 80, "number of random runs")

// newClient returns a client with a new member id.
func (w *world) newClient(instance string) *client {
	w.nextID++
	c := &client{id: fmt.Sprint("m", w.nextID), instance: instance, owned: assignor.Assignment{}}
	c.assignor = []string{"", "uniform", "range"}[w.random.IntN(3)]
	w.subscribe(c)
	return c
}

func (w *world) subscribe(c *client) {
	c.topics, c.expression, c.sendFull = nil, "", true
	for _, name := range []string{"t0", "t1", "t2"} {
		if w.random.IntN(2) == 0 {
			c.topics = append(c.topics, name)
		}
	}
	if w.random.IntN(3) == 0 {
		c.expression = []string{"t.*", "t[12]", "t1|t2"}[w.random.IntN(3)]
	}
}

// step performs one random action.
func (w *world) step() {
	index := w.random.IntN(len(w.clients))
	c := w.clients[index]
	switch n := w.random.IntN(100); {
	case n < 45:
		w.heartbeat(c)
	case n < 60:
		if c.granted != nil {
			w.applyAssignment(c)
		}
	case n < 63: // the client no longer waits for its answer
		c.timedOut = true
	case n < 65 && c.sent != nil: // the heartbeat in flight is lost
		c.sent, c.sendFull, c.reported = nil, true, false
	case n < 68:
		w.subscribe(c)
	case n < 74:
		w.stop(index, c)
	case n < 77:
		w.changeTopics()
	case n < 80:
		w.compact()
		w.failover()
	default:
		w.advanceTime(time.Duration(w.random.IntN(3000)) * time.Millisecond)
	}
}

// heartbeat creates a client's next heartbeat unless one is in flight, and usually delivers it to
// the coordinator.
func (w *world) heartbeat(c *client) {
	if c.sent == nil {
		w.send(c)
	}
	if w.random.IntN(4) > 0 || w.faultless {
		w.deliver(c)
	}
}

// stop makes a client leave or crash, and replaces it with a new client with the same instance id.
func (w *world) stop(index int, c *client) {
	if c.epoch > 0 && w.random.IntN(2) == 0 {
		c.owned, c.granted = assignor.Assignment{}, nil
		h := &Heartbeat{Group: "g", Member: c.id, Epoch: EpochLeave, Rebalance: -1}
		if c.instance != "" {
			h.Epoch, h.Instance = []int32{EpochLeave, EpochLeaveStatic}[w.random.IntN(2)],
				&c.instance
		}
		c.sent = h
		w.deliver(c)
	}
	c.dead = true
	w.clients[index] = w.newClient(c.instance)
}

func (w *world) changeTopics() {
	name := fmt.Sprint("t", w.random.IntN(3))
	topic, there := w.topics[name]
	switch {
	case !there:
		w.create(name, 1+w.random.IntN(5))
	case w.random.IntN(2) == 0:
		delete(w.topics, name)
	default:
		topic.Partitions++
		w.topics[name] = topic
	}
	w.takeSnapshot()
}

// converge runs the world without faults until every client consumes its target. It fails if this
// takes more than two minutes.
func (w *world) converge() {
	w.faultless = true
	for range 60 {
		for _, c := range w.clients {
			w.heartbeat(c)
			for c.granted != nil {
				w.applyAssignment(c)
				if c.granted != nil {
					w.heartbeat(c)
				}
			}
			w.check()
		}
		if w.converged() {
			return
		}
		w.advanceTime(2 * time.Second)
	}
	for _, c := range w.clients {
		w.t.Logf("client %+v", *c)
	}
	w.t.Fatalf("after two minutes without faults the group is %s: %+v", w.group.State(),
		w.group.Describe())
}

// converged reports whether the group is stable and each subscribed partition is consumed by one
// client that subscribes to its topic.
func (w *world) converged() bool {
	if w.group.State() != "Stable" ||
		len(w.group.members) != min(len(w.clients), config.MembersMax) {
		return false
	}
	consumed, want := map[string]string{}, map[string]bool{}
	for _, c := range w.clients {
		m := w.group.members[c.id]
		if m == nil {
			if len(c.owned) > 0 {
				w.t.Fatalf("%s consumes %v and is not a member", c.id, c.owned)
			}
			continue
		}
		if !c.owned.Equal(w.group.targets[c.id]) {
			return false
		}
		for name, topic := range w.topics {
			subscribes := c.subscribes(name)
			if matches := c.matches(name); matches != slices.Contains(
				w.group.resolved[c.expression].Topics,
				name,
			) {
				w.t.Fatalf("%q matches %s: %v; the group has %v", c.expression, name, matches,
					w.group.resolved)
			}
			for partition := range topic.Partitions {
				if subscribes {
					want[fmt.Sprint(name, partition)] = true
				}
			}
			for _, partition := range c.owned[topic.ID] {
				if !subscribes {
					w.t.Fatalf("%s consumes %s without a subscription", c.id, name)
				}
				consumed[fmt.Sprint(name, partition)] = c.id
			}
		}
	}
	if !maps.EqualFunc(want, consumed, func(bool, string) bool { return true }) {
		w.t.Fatalf("got consumers %v, want one of each of %v", consumed,
			slices.Sorted(maps.Keys(want)))
	}
	return true
}

func (c *client) subscribes(topic string) bool {
	return slices.Contains(c.topics, topic) || c.matches(topic)
}

func (c *client) matches(topic string) bool {
	return c.expression != "" && regexp.MustCompile("^("+c.expression+")$").MatchString(topic)
}

// TestRandomHistories checks that, while consumers, the network, topics and the coordinator act and
// fail in random order, two members never consume the same partition, and targets are not computed
// more often than the interval allows. After the last fault, every subscribed partition must be
// consumed.
func TestRandomHistories(t *testing.T) {
	for seed := range seed.Sequence(t, *modelRuns) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			w.interval = []time.Duration{0, time.Second, 15 * time.Second}[w.random.IntN(3)]
			for i := range 1 + w.random.IntN(6) {
				instance := ""
				if i%3 == 1 {
					instance = fmt.Sprint("i", i)
				}
				w.clients = append(w.clients, w.newClient(instance))
			}
			for range 400 {
				w.step()
				w.check()
			}
			w.converge()
		})
	}
}
