package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// copier copies a topic to another topic in transactions that also commit the offsets of the input
// (exactly-once). Its instances share one consumer group, but each has its own transactional id.
type copier struct {
	server    *server
	from, to  string
	group     string
	start     kadm.ListedOffsets // offsets of the input at which the copy begins
	stop      context.CancelFunc
	instances sync.WaitGroup

	mu                 sync.Mutex
	committed, aborted int // numbers of transactions
	lastCommit         time.Time
	longest            time.Duration // longest time between two commits
}

// startCopy starts to copy the records that are written from now on.
func (s *server) startCopy(r *http.Request, a *account, _ *Stats) error {
	c := &copier{server: s, from: r.FormValue("topic"), to: r.FormValue("to"),
		group: r.FormValue("group")}
	count, err := strconv.Atoi(r.FormValue("instances"))
	if err != nil || c.to == "" || c.group == "" {
		return fmt.Errorf("parameters to, group and instances are required: %w", err)
	}
	admin := kadm.NewClient(s.producing())
	if c.start, err = admin.ListEndOffsets(r.Context(), c.from); err != nil {
		return fmt.Errorf("list the end offsets of %s: %w", c.from, err)
	}
	// With committed offsets, a new member starts there even if it is the first one that consumes a
	// partition.
	answer, err := admin.CommitOffsets(r.Context(), c.group, c.start.Offsets())
	if err = errors.Join(err, answer.Error()); err != nil {
		return fmt.Errorf("commit the start of the copy: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.copier != nil {
		return errors.New("the topic is already being copied")
	}
	var ctx context.Context
	ctx, c.stop = context.WithCancel(s.ctx)
	c.lastCommit = time.Now()
	for i := range count {
		c.instances.Go(func() { c.run(ctx, c.transactionalID(i)) })
	}
	a.copier = c
	return nil
}

func (c *copier) transactionalID(i int) string { return c.group + "-" + strconv.Itoa(i) }

// run copies until ctx ends. If a session cannot recover from an error, run continues with a new
// session of the same transactional id, which fences the previous session.
func (c *copier) run(ctx context.Context, id string) {
	for ctx.Err() == nil {
		if err := c.session(ctx, id); err != nil && ctx.Err() == nil {
			log.Printf("copy with transactional id %s: %v", id, err)
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
}

func (c *copier) session(ctx context.Context, id string) error {
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(c.server.bootstrap...),
		kgo.TransactionalID(id), kgo.TransactionTimeout(30*time.Second),
		kgo.ConsumerGroup(c.group), kgo.ConsumeTopics(c.from),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DefaultProduceTopic(c.to),
		kgo.SessionTimeout(10*time.Second), kgo.MetadataMinAge(100*time.Millisecond),
		kgo.WithLogger(logger(id+" ")))
	if err != nil {
		return fmt.Errorf("create a session: %w", err)
	}
	defer session.Close()
	for ctx.Err() == nil {
		polled := session.PollRecords(ctx, 200)
		if polled.NumRecords() == 0 {
			continue
		}
		if err := session.Begin(); err != nil {
			return fmt.Errorf("begin a transaction: %w", err)
		}
		polled.EachRecord(func(r *kgo.Record) { session.Produce(ctx, copyOf(r), nil) })
		// End aborts the transaction if a record was not produced, or if partitions were revoked.
		committed, err := session.End(context.WithoutCancel(ctx), kgo.TryCommit)
		if err != nil {
			return fmt.Errorf("end a transaction: %w", err)
		}
		c.ended(committed)
	}
	return nil
}

// copyOf returns a record's copy. The copy's key is the position of the original record.
func copyOf(r *kgo.Record) *kgo.Record {
	return &kgo.Record{Key: []byte(position(r)), Value: r.Value}
}

func position(r *kgo.Record) string { return fmt.Sprintf("%d/%d", r.Partition, r.Offset) }

func (c *copier) ended(committed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !committed {
		c.aborted++
		return
	}
	now := time.Now()
	c.longest = max(c.longest, now.Sub(c.lastCommit))
	c.committed, c.lastCommit = c.committed+1, now
}

// copying reports the progress of the copy and the coordinator of its first transactional id.
func (s *server) copying(r *http.Request, a *account, response *Stats) error {
	s.mu.Lock()
	c := a.copier
	s.mu.Unlock()
	if c == nil {
		return errors.New("the topic is not being copied")
	}
	admin := kadm.NewClient(s.producing())
	coordinator := admin.FindTxnCoordinators(r.Context(),
		c.transactionalID(0))[c.transactionalID(0)]
	if err := coordinator.Err; err != nil {
		return fmt.Errorf("find the coordinator: %w", err)
	}
	response.Coordinator = coordinator.NodeID
	lag, err := admin.Lag(r.Context(), c.group)
	if err = errors.Join(err, lag.Error()); err != nil {
		return fmt.Errorf("compute the lag: %w", err)
	}
	response.Behind = lag[c.group].Lag.Total()
	c.report(response)
	return nil
}

func (c *copier) report(response *Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	response.Committed, response.Aborted = c.committed, c.aborted
	response.CommitGap = c.longest.Milliseconds()
}

// endCopy stops the copy, and compares the output with the input. The output must contain each
// record of the input exactly once, and no other records.
func (s *server) endCopy(r *http.Request, a *account, response *Stats) error {
	s.mu.Lock()
	c := a.copier
	a.copier = nil
	s.mu.Unlock()
	if c == nil {
		return errors.New("the topic is not being copied")
	}
	c.stop()
	c.instances.Wait()
	c.report(response)
	var err error
	response.Held, err = c.verify(r.Context())
	return err
}
