package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset/commit"
)

var errNoAnswer = errors.New("no answer from the API server")

// apiClient is a node's connection to the API server, with a cache that a watch updates. It
// implements commit.API.
type apiClient struct {
	w       *world
	node    int32
	dead    func() bool // reports whether the process has ended
	unknown func()      // called after a write with an unknown outcome; can be nil
	mu      struct {
		sync.Mutex
		random  *rand.Rand
		cache   map[string]*v1alpha1.PartitionSet
		version int64 // version of the cache; 0: not listed yet
	}
}

func newAPIClient(w *world, node int32, dead func() bool) *apiClient {
	c := &apiClient{w: w, node: node, dead: dead}
	c.mu.random = rand.New(rand.NewPCG(w.seed, uint64(uint32(node))<<32|w.nextProcess()))
	c.mu.cache = map[string]*v1alpha1.PartitionSet{}
	return c
}

// intN returns a random number below n.
func (c *apiClient) intN(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.random.IntN(n)
}

// call sends a request to the API server and waits for the answer.
func (c *apiClient) call(ctx context.Context, request func() error) error {
	if err := c.w.net.send(ctx, c.node, apiServer); err != nil {
		return err
	}
	if c.dead() {
		return errLost
	}
	err := request()
	if lost := c.w.net.send(ctx, apiServer, c.node); lost != nil {
		return lost
	}
	return err
}

func (c *apiClient) Latest(set string) *v1alpha1.PartitionSet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.cache[set]
}

func (c *apiClient) Get(ctx context.Context, set string) (got *v1alpha1.PartitionSet, err error) {
	err = c.call(ctx, func() error {
		got, err = c.w.store.get(set)
		return err
	})
	return got, err
}

func (c *apiClient) UpdateSpec(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	return c.update(ctx, set, true)
}

func (c *apiClient) UpdateStatus(ctx context.Context,
	set *v1alpha1.PartitionSet) (*v1alpha1.PartitionSet, error) {
	return c.update(ctx, set, false)
}

// update sends a write. Some responses are lost. Some writes arrive after their sender has
// abandoned them.
func (c *apiClient) update(ctx context.Context, set *v1alpha1.PartitionSet,
	spec bool) (result *v1alpha1.PartitionSet, err error) {
	set = set.DeepCopy()
	failure, late := noFailure, time.Duration(0)
	if !c.w.isHealed() {
		switch c.intN(8) {
		case 0:
			failure = answerLost
		case 1:
			failure, late = writeLate, time.Second+time.Duration(c.intN(7))*time.Second
		}
	}
	err = c.call(ctx, func() error {
		if failure == writeLate {
			c.w.spawn(func() {
				if sleep(c.w.ctx, late) == nil {
					if _, err := c.w.store.update(set, spec); err == nil {
						c.w.tracef("node %d: a late write of %s arrived", c.node, set.Name)
						c.w.countLateWrite()
					}
				}
			})
			return errNoAnswer
		}
		result, err = c.w.store.update(set, spec)
		return err
	})
	if err == nil && failure == answerLost {
		err = errNoAnswer
	}
	if failure != noFailure && c.unknown != nil && c.intN(2) == 0 {
		c.unknown()
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// next waits until the API server has new data or the time has passed, and delivers a part of this
// data to the cache. It returns the brokers that were registered at the time of the delivery.
func (c *apiClient) next(ctx context.Context, wait time.Duration) (registrations, error) {
	c.mu.Lock()
	version := c.mu.version
	c.mu.Unlock()
	if version == 0 {
		return c.relist(ctx, c.intN(4) == 0 && !c.w.isHealed())
	}
	events, changed, err := c.w.store.since(version)
	if err != nil {
		c.w.countRelist()
		return c.relist(ctx, false)
	}
	if len(events) == 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
		case <-changed:
		}
		if events, _, err = c.w.store.since(version); err != nil {
			return nil, err
		}
	}
	if len(events) > 0 && !c.w.isHealed() {
		events = events[:1+c.intN(len(events))]
		if c.intN(16) == 0 { // the watch lags behind
			if err := sleep(ctx, time.Duration(c.intN(3000))*time.Millisecond); err != nil {
				return nil, err
			}
		}
	}
	brokers := c.w.meta.registered()
	if err := c.w.net.send(ctx, apiServer, c.node); err != nil {
		return nil, err
	}
	if !c.w.isHealed() && c.intN(64) == 0 { // the watch ends, and is started again later
		return nil, sleepThen(ctx, time.Duration(c.intN(1000))*time.Millisecond, errLost)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		c.mu.cache[e.set.Name], c.mu.version = e.set, e.version
	}
	return brokers, nil
}

// relist replaces the content of the cache with a new list.
func (c *apiClient) relist(ctx context.Context, stale bool) (brokers registrations, err error) {
	var sets []*v1alpha1.PartitionSet
	var version int64
	err = c.call(ctx, func() error {
		sets, version = c.w.store.list(stale)
		brokers = c.w.meta.registered()
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.mu.cache)
	for _, set := range sets {
		c.mu.cache[set.Name] = set
	}
	c.mu.version = version
	return brokers, nil
}

func sleepThen(ctx context.Context, d time.Duration, err error) error {
	return errors.Join(sleep(ctx, d), err)
}

// writer returns a writer of PartitionSets that uses the connection.
func (c *apiClient) writer() *commit.Writer {
	return commit.New(c, commit.Options{Timeout: 5 * time.Second, Concurrent: 2})
}
