package coordinator

import (
	"context"
	"fmt"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica"
)

const (
	// verifyConnections is the maximum number of connections to one broker for verifications. Each has
	// one request in flight. If a request has to wait for the end of a transaction, it occupies its
	// connection until then.
	verifyConnections = 4
	// verifyQuestionsMax limits the number of questions in one request.
	verifyQuestionsMax = 1000
	connectTimeout     = 3 * time.Second
	// peerIdle is the time after which an unused connection is closed.
	peerIdle = time.Minute
)

// verifier sends verifications to the coordinators on other brokers. Questions that arrive while
// all connections to a broker are in use are sent together in the next request.
type verifier struct {
	opts  *TransactionOptions
	ctx   context.Context //nolint:containedctx // canceled by close
	stop  context.CancelFunc
	tasks sync.WaitGroup

	mu      sync.Mutex
	brokers map[int32]*verifyQueue
}

// verifyQueue contains the questions for one broker, and the connections to this broker. It is
// guarded by the verifier's mutex.
type verifyQueue struct {
	broker  metadata.Broker
	waiting []*verifyItem
	workers int // number of goroutines; each has a connection
	idle    int // number of workers that wait for questions
	wake    chan struct{}
}

type verifyItem struct {
	replica.Verification
	ctx    context.Context //nolint:containedctx // of the question
	answer chan []error    // channel with a buffer of one
}

func newVerifier(opts *TransactionOptions) *verifier {
	v := &verifier{opts: opts, brokers: map[int32]*verifyQueue{}}
	v.ctx, v.stop = context.WithCancel(context.Background())
	return v
}

func (v *verifier) close() {
	v.mu.Lock()
	v.stop()
	v.mu.Unlock()
	v.tasks.Wait()
}

// ask sends a question and waits for the answer.
func (v *verifier) ask(ctx context.Context, to metadata.Broker, q replica.Verification) []error {
	item := &verifyItem{q, ctx, make(chan []error, 1)}
	v.queue(to, item)
	select {
	case errs := <-item.answer:
		return errs
	case <-ctx.Done():
		return all(len(q.Partitions), fmt.Errorf("%w: verify transaction: %w",
			replica.ErrNotEnoughReplicas, ctx.Err()))
	case <-v.ctx.Done():
		return all(len(q.Partitions), fmt.Errorf("%w: the broker is stopping",
			replica.ErrNotEnoughReplicas))
	}
}

func (v *verifier) queue(to metadata.Broker, item *verifyItem) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ctx.Err() != nil {
		return
	}
	q := v.brokers[to.ID]
	if q == nil {
		q = &verifyQueue{wake: make(chan struct{}, verifyConnections)}
		v.brokers[to.ID] = q
	}
	q.broker = to
	q.waiting = append(q.waiting, item)
	switch {
	case q.idle > 0:
		q.idle--
		// This does not block, because the channel contains at most one value for each idle worker.
		q.wake <- struct{}{}
	case q.workers < verifyConnections:
		q.workers++
		v.tasks.Go(func() { v.work(q) })
	}
}

// take returns the waiting questions, and the broker's current address.
func (v *verifier) take(q *verifyQueue) ([]*verifyItem, metadata.Broker) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := min(len(q.waiting), verifyQuestionsMax)
	items := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	if n == 0 {
		q.idle++
	}
	return items, q.broker
}

// retire ends an idle worker. It returns false if a question for the worker has just arrived.
func (v *verifier) retire(q *verifyQueue) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if q.idle == 0 {
		return false
	}
	q.idle--
	q.workers--
	return true
}

// work is the goroutine of one connection.
func (v *verifier) work(q *verifyQueue) {
	var connection connector
	defer connection.close()
	idle := time.NewTimer(peerIdle)
	defer idle.Stop()
	for v.ctx.Err() == nil {
		items, to := v.take(q)
		if len(items) > 0 {
			v.send(&connection, to, items)
			continue
		}
		idle.Reset(peerIdle)
		select {
		case <-v.ctx.Done():
			return
		case <-q.wake:
		case <-idle.C:
			if v.retire(q) {
				return
			}
			<-q.wake // a question has just arrived
		}
	}
}

// send sends questions in one request and delivers the answers.
func (v *verifier) send(c *connector, to metadata.Broker, items []*verifyItem) {
	questions := make([]replica.Verification, len(items))
	for i, item := range items {
		questions[i] = item.Verification
	}
	ctx, cancel := context.WithTimeout(v.ctx, connectTimeout)
	defer cancel()
	var answers [][]error
	peer, err := c.connect(ctx, v.opts, to)
	if err == nil {
		if answers, err = peer.Verify(ctx, questions); err != nil {
			c.close()
		}
	}
	for i, item := range items {
		if err != nil {
			item.answer <- all(len(item.Partitions), fmt.Errorf(
				"%w: verify transaction on broker %d: %w", replica.ErrNotEnoughReplicas, to.ID, err))
			continue
		}
		item.answer <- answers[i]
	}
}

// connector is the connection of one worker. It is opened when it is needed.
type connector struct {
	peer Peer
	to   metadata.Broker
}

func (c *connector) connect(ctx context.Context, opts *TransactionOptions,
	to metadata.Broker) (Peer, error) {
	if c.peer != nil && (c.to.Peer != to.Peer || c.to.Endpoints != to.Endpoints) {
		c.close()
	}
	if c.peer == nil {
		peer, err := opts.Connect(ctx, to)
		if err != nil {
			return nil, err
		}
		c.peer, c.to = peer, to
	}
	return c.peer, nil
}

func (c *connector) close() {
	if c.peer != nil {
		_ = c.peer.Close() // an error does not matter, because the connection is not used again
		c.peer = nil
	}
}
