package transaction

import (
	"errors"
	"slices"
	"time"
)

// outcome is what a client knows about its transaction.
type outcome int

const (
	undecided outcome = iota
	committed
	aborted
	unknown
)

// txn is a client's transaction.
type txn struct {
	client  *client
	commit  bool // true if the client has requested a commit
	outcome outcome
	written int // number of acknowledged values
}

// instance identifies one run of a client, from its start to its restart.
type instance struct {
	client *client
	start  int
}

// client is a transactional producer. Two clients with the same id fence each other.
type client struct {
	*world
	id         string
	version    int16
	producer   Producer // producer id and epoch; the id is NoProducerID before the first Init
	fresh      bool     // true if the epoch is confirmed
	sequence   map[Partition]int
	connection uint64
	// instance is the number of starts of the client. Answers to earlier instances are dropped.
	instance int
	busy     bool
	txn      *txn
	added    []Partition
	failed   bool // true if the transaction must be aborted
	rebump   bool // true if the epoch must be bumped after the abort
	retry    func()
}

func (c *client) restart() {
	instance := c.instance + 1
	if c.txn != nil {
		c.txn.outcome = unknown
	}
	*c = client{world: c.world, id: c.id, version: c.version, instance: instance,
		producer: Producer{ID: NoProducerID}}
	c.reconnect()
}

func (c *client) reconnect() {
	c.world.connection++
	c.connection = c.world.connection
	if c.noConnections {
		c.connection = 0
	}
}

// act performs the client's next action.
func (c *client) act() {
	switch {
	case c.healthy && c.busy:
	case !c.healthy && c.chance(100):
		c.restart()
	case c.busy:
	case c.retry != nil:
		c.retry()
	case !c.fresh:
		c.init()
	case c.txn == nil && c.chance(20):
		c.init() // repeats Init with the current producer, as after an error
	case c.txn == nil:
		if !c.healthy {
			c.txn = &txn{client: c}
			c.txns = append(c.txns, c.txn)
		}
	case !c.failed && !c.healthy && c.chance(2):
		c.write(Partition{"t", int32(c.random.IntN(3))})
	default:
		c.end(!c.failed && c.chance(2))
	}
}

// send sends a request. If the outcome is unknown, the client repeats the request, sometimes on
// another connection, while the frame of the first attempt is still in transit.
func (c *client) send(do func(connection uint64, to Token) Output, then func(Result, error)) {
	instance := c.instance
	c.busy, c.retry = true, nil
	var attempt func()
	attempt = func() {
		c.busy = true
		connection := c.connection
		if !c.healthy && c.chance(8) {
			c.world.late = append(c.world.late, func() {
				to := c.world.request(func(Result, error) {})
				c.apply(do(connection, to))
			})
			c.reconnect()
			c.busy, c.retry = false, attempt
			return
		}
		to := c.world.request(func(result Result, err error) {
			if c.instance != instance {
				return
			}
			c.busy = false
			if errors.Is(err, errUnknown) || errors.Is(err, ErrConcurrent) {
				c.retry = attempt
				return
			}
			c.retry = nil
			then(result, err)
		})
		c.apply(do(connection, to))
	}
	attempt()
}

func (c *client) init() {
	expected := c.producer
	c.send(func(connection uint64, to Token) Output {
		return c.state.Init(c.now, Init{To: to, ID: c.id, Timeout: 20 * time.Second,
			Expected: expected, Connection: connection})
	}, func(result Result, err error) {
		if err != nil {
			c.restart()
			return
		}
		c.adopt(result.Producer)
		c.fresh = true
	})
}

// adopt stores the producer that an answer contains. No two instances may have the same producer.
func (c *client) adopt(p Producer) {
	if owner, known := c.owners[p]; known && owner != (instance{c, c.instance}) {
		c.fail("producer %v of %s was handed out twice", p, c.id)
	}
	c.owners[p] = instance{c, c.instance}
	if c.producer != p {
		c.sequence = map[Partition]int{}
	}
	c.producer = p
}

func (c *client) write(p Partition) {
	if c.version >= EpochBumpVersion || slices.Contains(c.added, p) {
		c.added = append(c.added, p)
		c.produce(p)
		return
	}
	c.add(p, false, func(_ Result, err error) {
		if err != nil {
			c.restart()
			return
		}
		c.added = append(c.added, p)
	})
}

func (c *client) add(p Partition, verify bool, then func(Result, error)) {
	producer := c.producer
	c.send(func(connection uint64, to Token) Output {
		if verify || c.version >= EpochBumpVersion {
			connection = 0 // the request is sent by the leader of a partition
		}
		return c.state.Add(c.now, Add{To: to, ID: c.id, Producer: producer, Verify: verify,
			Partitions: []Partition{p}, Version: c.version, Connection: connection})
	}, then)
}

// produce writes a value. The first value of a transaction is verified by the partition's leader.
func (c *client) produce(p Partition) {
	to, t, producer := c.partitions[p], c.txn, c.producer
	guard, sequence := to.writer(producer.ID).markers, c.sequence[p]
	store := func() bool {
		return (to.writer(producer.ID).markers == guard || c.noGuard) &&
			to.append(t, producer, sequence)
	}
	answer := func() {
		switch {
		case !c.healthy && c.chance(8): // the client stops waiting before the leader appends the batch
			c.delayed = append(c.delayed, func() { store() })
			c.failed, c.rebump = true, true
		case store():
			c.sequence[p]++
			t.written++
		default:
			c.failed, c.rebump = true, true
		}
	}
	if !to.needsVerification(producer) || c.noVerification {
		answer()
		return
	}
	c.add(p, c.version < EpochBumpVersion, func(result Result, err error) {
		if err != nil || len(result.Absent) > 0 {
			c.failed, c.rebump = true, true
			return
		}
		answer()
	})
}

func (c *client) end(commit bool) {
	t, producer := c.txn, c.producer
	if len(c.added) == 0 { // there is no transaction to end
		c.txn, c.failed = nil, false
		t.outcome = aborted
		return
	}
	t.commit = commit
	c.send(func(connection uint64, to Token) Output {
		return c.state.End(c.now, End{To: to, ID: c.id, Producer: producer, Commit: commit,
			Version: c.version, Connection: connection})
	}, func(result Result, err error) {
		c.txn, c.added = nil, nil
		switch {
		case err != nil:
			t.outcome = unknown
			c.restart()
			return
		case commit:
			t.outcome = committed
		default:
			t.outcome = aborted
		}
		c.adopt(result.Producer)
		c.fresh = !c.rebump || c.version >= EpochBumpVersion
		c.failed, c.rebump = false, false
	})
}
