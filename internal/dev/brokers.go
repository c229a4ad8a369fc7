package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"heartwood.dev/heartwood/internal/broker"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/metadata/local"
)

const (
	// startGrace is how long elections wait for the last broker of a start.
	startGrace = 3 * time.Second
	// governInterval is how often brokers that are drained are stopped.
	governInterval = time.Second
	// balanceInterval is for how long no broker must have come or gone before leadership goes back
	// to the preferred leaders.
	balanceInterval = 10 * time.Second
)

// runBrokers starts the brokers, follows the manifests, and stops the brokers when ctx ends or one
// of them fails.
func (c *cluster) runBrokers(ctx context.Context, registry prometheus.Registerer,
	httpAddress string) error {
	run := c.keepProcess
	if !c.opts.Processes {
		brokers, err := c.newBrokers(registry)
		if err != nil {
			return err
		}
		c.brokers.Store(&brokers)
		run = func(ctx context.Context, i int) error { return brokers[i].Run(ctx) }
	}
	c.store.Hold()
	group, ctx := errgroup.WithContext(ctx)
	living, stopAll := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAll()
	stops := make([]context.CancelFunc, c.store.Running())
	for i := range stops {
		var own context.Context
		own, stops[i] = context.WithCancel(living)
		group.Go(func() error { return run(own, i) })
	}
	group.Go(func() error {
		<-ctx.Done()
		// Said first, brokers do not hand over to others that stop, too, and all stay in sync for
		// the next start.
		c.warn("the stop of all brokers", c.store.LeaveAll())
		stopAll()
		return nil
	})
	group.Go(func() error {
		c.govern(ctx, func(i int) { c.stopDrained(i, stops[i]) })
		return nil
	})
	if c.awaitBrokers(ctx) == nil && c.awaitServing(ctx) == nil {
		var bootstrap []string
		for _, b := range c.store.Image().Brokers {
			if endpoint, ok := b.Endpoints.On(metadata.DefaultListener); ok {
				bootstrap = append(bootstrap, endpoint.String())
			}
		}
		c.announce(bootstrap, httpAddress)
		c.follow(ctx)
	}
	return group.Wait()
}

// newBrokers opens all brokers, or none: their ports and the locks on their directories are free
// again when it fails, so that a start with other flags can follow at once.
func (c *cluster) newBrokers(registry prometheus.Registerer) (brokers broker.Brokers, err error) {
	for i := range c.store.Running() {
		listen, advertise := c.listen.broker(i)
		b, err := broker.New(broker.Options{
			NodeID: int32(i), DataDir: c.brokerDir(i), Listen: listen, Advertise: advertise,
			Rack:     c.opts.rack(i),
			Metadata: local.Session{Store: c.store, Broker: int32(i)}, Logger: c.opts.Logger,
			Registry: prometheus.WrapRegistererWith(prometheus.Labels{"broker": strconv.Itoa(i)},
				registry),
		})
		if err != nil {
			for _, started := range brokers {
				err = errors.Join(err, started.Close())
			}
			return nil, listenFault("listen", err)
		}
		brokers = append(brokers, b)
	}
	return brokers, nil
}

// stopDrained stops the last broker, which holds nothing any more.
func (c *cluster) stopDrained(i int, stop context.CancelFunc) {
	if brokers := c.brokers.Load(); brokers != nil {
		fewer := slices.Clone(*brokers)[:i]
		c.brokers.Store(&fewer)
	}
	stop()
	c.print(fmt.Sprintf("broker %d drained and stopped", i))
}

// govern does what takes its time: elections of a start that not all brokers come to, stops of
// drained brokers, the highest first, and balance. It returns when ctx ends.
func (c *cluster) govern(ctx context.Context, drained func(i int)) {
	tick := time.NewTicker(governInterval)
	defer tick.Stop()
	running := c.store.Running()
	started := time.Now()
	var seen []metadata.Broker
	quiet := started
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		if now.Sub(started) >= startGrace {
			c.warn("elections", c.store.Release())
		}
		for ; running > c.store.Running(); running-- {
			drained(running - 1)
		}
		if brokers := c.store.Image().Brokers; !slices.Equal(brokers, seen) {
			seen, quiet = brokers, now
		}
		if now.Sub(quiet) >= balanceInterval {
			c.warn("balance of leaders", c.store.Balance())
			quiet = now
		}
	}
}

// warn reports what will be tried again.
func (c *cluster) warn(what string, err error) {
	if err != nil {
		c.opts.Logger.Warn("a change could not be recorded", "what", what, "error", err)
	}
}

// awaitBrokers waits for all brokers, but when one does not come only until there is one: the
// others can do without it.
func (c *cluster) awaitBrokers(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, slowStart)
	defer cancel()
	if err := c.store.AwaitBrokers(waiting, c.store.Running()); err != nil && ctx.Err() == nil {
		c.opts.Logger.Warn("start takes long", "error", err)
	}
	return c.store.AwaitBrokers(ctx, 1)
}

// awaitServing waits until every partition is served, and says so when that takes long. Records
// that are lost are accepted once all brokers had their time to come.
func (c *cluster) awaitServing(ctx context.Context) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, slowStart)
		err := c.store.AwaitServing(waiting)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
		c.opts.Logger.Warn(
			"start takes long; if a broker has lost its disk, --accept-data-loss goes on without its records",
			"error",
			err,
		)
		if c.opts.AcceptDataLoss {
			c.warn("consent to lose records", c.store.AcceptDataLoss())
		}
	}
}
