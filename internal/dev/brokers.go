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
	// startGrace is how long the first elections wait for brokers that have not started yet.
	startGrace = 3 * time.Second
	// slowStop is how long the brokers may take to stop before a line announces that they are still
	// stopping.
	slowStop = 3 * time.Second
	// superviseInterval is how often supervise runs its actions.
	superviseInterval = time.Second
	// balanceDelay is how long the set of running brokers must be unchanged before leadership
	// returns to the preferred leaders.
	balanceDelay = 10 * time.Second
)

// runBrokers starts the brokers and applies changes of the manifests. It stops the brokers when ctx
// ends or one of them fails.
func (c *cluster) runBrokers(ctx context.Context, registry prometheus.Registerer,
	httpAddress string) error {
	run := c.superviseProcess
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
	brokersCtx, stopAll := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAll()
	stops := make([]context.CancelFunc, c.store.Running())
	for i := range stops {
		var brokerCtx context.Context
		brokerCtx, stops[i] = context.WithCancel(brokersCtx)
		group.Go(func() error { return run(brokerCtx, i) })
	}
	group.Go(func() error {
		<-ctx.Done()
		// Mark all brokers as leaving first, so that no broker hands over its partitions to another
		// stopping broker. At the next start, all replicas are then in sync.
		c.warn("shutdown of all brokers", c.store.LeaveAll())
		stopAll()
		return nil
	})
	group.Go(func() error {
		c.supervise(ctx, func(i int) { c.stopDrained(i, stops[i]) })
		return nil
	})
	if c.awaitBrokers(ctx) == nil && c.awaitServing(ctx) == nil {
		c.announce(c.bootstrap(c.initial.listeners()[0].Name), httpAddress)
		c.follow(ctx)
	}
	<-ctx.Done()
	return c.announceSlow(group.Wait)
}

// announceSlow calls wait, which waits until all brokers have stopped. If this takes longer than
// slowStop, announceSlow prints a line, so that users see that the process has not ignored the
// signal.
func (c *cluster) announceSlow(wait func() error) error {
	slow := time.AfterFunc(slowStop, func() {
		c.print("stopping: brokers are syncing their logs; a second signal stops this process at " +
			"once, and the next start then checks the logs")
	})
	defer slow.Stop()
	return wait()
}

// newBrokers opens all brokers or none. If it fails, it releases their ports and directory locks,
// so that a start with other flags can follow immediately.
func (c *cluster) newBrokers(registry prometheus.Registerer) (brokers broker.Brokers, err error) {
	for i := range c.store.Running() {
		b, err := broker.New(c.secure(i, broker.Options{
			NodeID: int32(i), DataDir: c.brokerDir(i), Rack: c.opts.rack(i),
			Listeners: c.listeners(i),
			Metadata:  local.Session{Store: c.store, Broker: int32(i)}, Logger: c.opts.Logger,
			LogLevel: c.opts.Level,
			Registry: prometheus.WrapRegistererWith(prometheus.Labels{"broker": strconv.Itoa(i)},
				registry),
		}))
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

// listeners returns broker i's listeners.
func (c *cluster) listeners(i int) []broker.Listener {
	all := c.initial.listeners()
	listeners := make([]broker.Listener, len(all))
	for index := range all {
		listen, advertise := c.listen.broker(i, index)
		if c.advertise != (address{}) {
			advertise, _ = c.advertise.broker(i, index)
		}
		listeners[index] = broker.ListenerOf(&all[index], listen, advertise)
	}
	return listeners
}

// plainPeerHost returns the host at which the brokers reach each other on the first listener's
// port, or "" for the advertised address. The address in --advertise may be reachable only from
// outside a container.
func (c *cluster) plainPeerHost() string {
	if c.advertise == (address{}) {
		return ""
	}
	return c.listen.dialHost()
}

// secure adds to broker i's options the host at which other brokers reach it. If brokers need
// certificates, it also adds the broker's certificates.
func (c *cluster) secure(i int, opts broker.Options) broker.Options {
	opts.PeerHost = c.plainPeerHost()
	if c.security == nil {
		return opts
	}
	opts.Certificates = c.security.certificates[i]
	opts.Namespace, opts.Cluster = devNamespace, c.security.cluster
	opts.PeerListen, opts.PeerHost = peerListen, peerHost
	return opts
}

// Brokers connect to each other on the loopback interface, on any free port.
const (
	peerHost   = "127.0.0.1"
	peerListen = peerHost + ":0"
)

// stopDrained stops broker i, the broker with the highest id, because it no longer holds replicas.
func (c *cluster) stopDrained(i int, stop context.CancelFunc) {
	if brokers := c.brokers.Load(); brokers != nil {
		fewer := slices.Clone(*brokers)[:i]
		c.brokers.Store(&fewer)
	}
	stop()
	c.print(fmt.Sprintf("broker %d drained and stopped", i))
}

// supervise performs periodic actions until ctx ends. After startGrace, it permits elections even
// if not all brokers have started. It stops drained brokers, beginning with the highest id. It
// returns leadership to the preferred leaders.
func (c *cluster) supervise(ctx context.Context, drained func(i int)) {
	tick := time.NewTicker(superviseInterval)
	defer tick.Stop()
	running := c.store.Running()
	started := time.Now()
	var seen []metadata.Broker
	lastChange := started
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
			seen, lastChange = brokers, now
		}
		if now.Sub(lastChange) >= balanceDelay {
			c.warn("preferred leaders", c.store.Balance())
			lastChange = now
		}
	}
}

// warn logs that a change of the metadata could not be written. The caller must retry the change
// later.
func (c *cluster) warn(change string, err error) {
	if err != nil {
		c.opts.Logger.Warn("failed to write metadata change", "change", change, "error", err)
	}
}

// awaitBrokers waits until all brokers are up. After slowStart it waits only until one broker is
// up, because the cluster can run without the others.
func (c *cluster) awaitBrokers(ctx context.Context) error {
	waitCtx, cancel := context.WithTimeout(ctx, slowStart)
	defer cancel()
	if err := c.store.AwaitBrokers(waitCtx, c.store.Running()); err != nil && ctx.Err() == nil {
		c.opts.Logger.Warn("waiting for brokers to start", "error", err)
	}
	return c.store.AwaitBrokers(ctx, 1)
}

// awaitServing waits until all partitions whose records are not lost are served. Each time
// slowStart passes, it logs a partition that is not served. If AcceptDataLoss is set, it performs
// unclean elections. It does so when slowStart has passed, so that all brokers can start first, or
// as soon as all partitions without lost records are served.
func (c *cluster) awaitServing(ctx context.Context) error {
	for {
		waitCtx, cancel := context.WithTimeout(ctx, slowStart)
		err := c.store.AwaitServing(waitCtx)
		cancel()
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			lost := len(c.store.Lost())
			if lost == 0 || !c.opts.AcceptDataLoss {
				return nil
			}
			c.warn("unclean elections", c.store.AcceptDataLoss())
			if len(c.store.Lost()) == lost {
				return nil // the replicas are on brokers that are down
			}
			continue
		}
		c.opts.Logger.Warn("waiting for partitions to be served; if a broker has lost its disk or a log, "+
			"--accept-data-loss continues without its records", "error", err)
		if c.opts.AcceptDataLoss {
			c.warn("unclean elections", c.store.AcceptDataLoss())
		}
	}
}
