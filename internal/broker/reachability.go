package broker

import (
	"context"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/handler/data"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/reachability"
	"heartwood.dev/heartwood/internal/wire"
)

// reachWatch pings all other brokers, and reports those that do not respond to the metadata store.
// A ping is a small request on a separate connection, so its response is not delayed by a slow disk
// or a large fetch response.
//
// Goroutines: run, and one for each pinged peer. run stops these goroutines and waits for them
// before it returns.
type reachWatch struct {
	broker *Broker
	mu     struct {
		sync.Mutex
		observer reachability.Observer
	}
	pinged map[reachability.Peer]*pinger // only run accesses it
}

// pinger is a goroutine that pings one peer.
type pinger struct {
	cancel context.CancelFunc
	target metadata.Broker
}

// run pings the brokers in the newest metadata image until ctx ends. If the metadata store accepts
// no reports, run does nothing.
func (w *reachWatch) run(ctx context.Context) {
	reporter, ok := w.broker.opts.Metadata.(metadata.ReachabilityReporter)
	if !ok {
		return
	}
	w.pinged = map[reachability.Peer]*pinger{}
	var running sync.WaitGroup
	defer running.Wait()
	ticker := time.NewTicker(reachability.PingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		reporter.ReportUnreachable(w.tick(ctx, &running).String())
	}
}

// tick starts pingers for new brokers in the newest metadata image, stops those for removed
// brokers, and returns the current report.
func (w *reachWatch) tick(ctx context.Context, running *sync.WaitGroup) reachability.Report {
	peers := w.peers()
	for peer, p := range w.pinged {
		if target, ok := peers[peer]; !ok || target.Peer != p.target.Peer {
			p.cancel()
			delete(w.pinged, peer)
		}
	}
	names := make([]reachability.Peer, 0, len(peers))
	for peer, target := range peers {
		names = append(names, peer)
		if w.pinged[peer] == nil {
			pinging, cancel := context.WithCancel(ctx)
			w.pinged[peer] = &pinger{cancel, target}
			running.Go(func() { w.pingAlways(pinging, peer, target) })
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.observer.Tick(names, time.Now())
}

// peers returns the other brokers in the newest metadata image, except brokers in controlled
// shutdown.
func (w *reachWatch) peers() map[reachability.Peer]metadata.Broker {
	peers := map[reachability.Peer]metadata.Broker{}
	image := w.broker.images.newest.Load()
	if image == nil {
		return peers
	}
	for i := range image.Brokers {
		b := &image.Brokers[i]
		if b.ID != w.broker.opts.NodeID && (!b.Leaving || b.Isolated) {
			peers[reachability.Peer{Broker: b.ID, Epoch: b.Epoch}] = *b
		}
	}
	return peers
}

// pingAlways pings a peer every PingInterval until ctx ends. After a failure it reconnects.
func (w *reachWatch) pingAlways(ctx context.Context, peer reachability.Peer,
	target metadata.Broker) {
	var connection *wire.Peer
	defer func() {
		if connection != nil {
			_ = connection.Close()
		}
	}()
	ticker := time.NewTicker(reachability.PingInterval)
	defer ticker.Stop()
	for {
		var err error
		if connection, err = w.ping(ctx, connection, target); err == nil {
			w.mu.Lock()
			w.mu.observer.Answered(peer, time.Now())
			w.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ping sends a ping and waits for the response. It returns the connection for the next ping, or nil
// if the connection failed.
func (w *reachWatch) ping(ctx context.Context, connection *wire.Peer,
	target metadata.Broker) (*wire.Peer, error) {
	ctx, cancel := context.WithTimeout(ctx, reachability.UnreachableAfter)
	defer cancel()
	if connection == nil {
		var err error
		if connection, err = w.broker.dialPeer(ctx, target); err != nil {
			return nil, err
		}
	}
	if _, err := connection.Do(ctx, data.InterruptCall()); err != nil {
		_ = connection.Close()
		return nil, err
	}
	return connection, nil
}
