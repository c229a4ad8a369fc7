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

var modelRuns = flag.Int("consumer.runs", 80, "random lives of a group")

// newClient makes a client, in the place of one that is gone.
func (w *world) newClient(instance string) *client {
	w.named++
	c := &client{id: fmt.Sprint("m", w.named), instance: instance, owned: assignor.Assignment{}}
	c.assignor = []string{"", "uniform", "range"}[w.random.IntN(3)]
	w.subscribe(c)
	return c
}

func (w *world) subscribe(c *client) {
	c.topics, c.expression, c.complete = nil, "", true
	for _, name := range []string{"t0", "t1", "t2"} {
		if w.random.IntN(2) == 0 {
			c.topics = append(c.topics, name)
		}
	}
	if w.random.IntN(3) == 0 {
		c.expression = []string{"t.*", "t[12]", "t1|t2"}[w.random.IntN(3)]
	}
}

// step lets one thing happen.
func (w *world) step() {
	at := w.random.IntN(len(w.clients))
	c := w.clients[at]
	switch n := w.random.IntN(100); {
	case n < 45:
		w.speak(c)
	case n < 60:
		if c.granted != nil {
			w.adopt(c)
		}
	case n < 63: // it does not wait any more
		c.deaf = true
	case n < 65 && c.sent != nil: // the network loses it
		c.sent, c.complete, c.said = nil, true, false
	case n < 68:
		w.subscribe(c)
	case n < 74:
		w.end(at, c)
	case n < 77:
		w.changeTopics()
	case n < 80:
		w.compact()
		w.failover()
	default:
		w.advance(time.Duration(w.random.IntN(3000)) * time.Millisecond)
	}
}

// speak has a client send a heartbeat, or the coordinator take the one it has sent.
func (w *world) speak(c *client) {
	if c.sent == nil {
		w.send(c)
	}
	if w.random.IntN(4) > 0 || w.calm {
		w.deliver(c)
	}
}

// end has a client leave, or die; another comes in its place.
func (w *world) end(at int, c *client) {
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
	w.clients[at] = w.newClient(c.instance)
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
	w.show()
}

// settle lets everything be well, until all have what they are to have.
func (w *world) settle() {
	w.calm = true
	for range 60 {
		for _, c := range w.clients {
			w.speak(c)
			for c.granted != nil {
				w.adopt(c)
				if c.granted != nil {
					w.speak(c)
				}
			}
			w.check()
		}
		if w.settled() {
			return
		}
		w.advance(2 * time.Second)
	}
	for _, c := range w.clients {
		w.t.Logf("client %+v", *c)
	}
	w.t.Fatalf("two minutes without a fault, and the group is %s: %+v", w.group.State(),
		w.group.Describe())
}

// settled tells whether each partition is consumed by one who subscribes to its topic.
func (w *world) settled() bool {
	if w.group.State() != "Stable" ||
		len(w.group.members) != min(len(w.clients), config.MembersMax) {
		return false
	}
	consumed, wanted := map[string]string{}, map[string]bool{}
	for _, c := range w.clients {
		m := w.group.members[c.id]
		if m == nil {
			if len(c.owned) > 0 {
				w.t.Fatalf("%s is no member and consumes %v", c.id, c.owned)
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
				w.t.Fatalf("%q matches %s: %v; known is %v", c.expression, name, matches,
					w.group.resolved)
			}
			for partition := range topic.Partitions {
				if subscribes {
					wanted[fmt.Sprint(name, partition)] = true
				}
			}
			for _, partition := range c.owned[topic.ID] {
				if !subscribes {
					w.t.Fatalf("%s does not subscribe to %s", c.id, name)
				}
				consumed[fmt.Sprint(name, partition)] = c.id
			}
		}
	}
	if !maps.EqualFunc(wanted, consumed, func(bool, string) bool { return true }) {
		w.t.Fatalf("wanted %v, consumed %v", slices.Sorted(maps.Keys(wanted)), consumed)
	}
	return true
}

func (c *client) subscribes(topic string) bool {
	return slices.Contains(c.topics, topic) || c.matches(topic)
}

func (c *client) matches(topic string) bool {
	return c.expression != "" && regexp.MustCompile("^("+c.expression+")$").MatchString(topic)
}

// TestRandomLives lets consumers, the network, the topics and the coordinator do anything in any
// order. No partition is ever consumed by two members, and once nothing fails any more, each is
// consumed by one.
func TestRandomLives(t *testing.T) {
	for seed := range seed.Sequence(t, *modelRuns) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newWorld(t, seed)
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
			w.settle()
		})
	}
}
