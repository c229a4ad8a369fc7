package broker

import (
	"context"
	"net"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/reachability"
)

// reachabilityStore replaces the metadata store and receives the reports.
type reachabilityStore struct {
	Metadata
	reports chan string
}

func (s reachabilityStore) ReportUnreachable(peers string) { s.reports <- peers }

// TestUnreachablePeersAreReported pings a real broker, and a listener that accepts connections but
// never responds, like a suspended process. Only the listener may be reported.
func TestUnreachablePeersAreReported(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	to := newCluster(t)
	to.start()
	reports := make(chan string)
	from := &Broker{opts: Options{NodeID: 1, Dialer: &net.Dialer{},
		Metadata: reachabilityStore{reports: reports}}}
	from.images.start(metadata.NewImage("", metadata.CleanerBudget{}, nil, nil))
	from.images.offer(metadata.NewImage("", metadata.CleanerBudget{}, []metadata.Broker{
		{ID: 1, Epoch: 1}, {ID: 2, Epoch: 4, Peer: silent.Addr().String()},
		{ID: 3, Epoch: 1, Peer: "127.0.0.1:1", Leaving: true},
		{ID: 5, Epoch: 2, Peer: to.Addr()},
	}, nil))
	reach := &reachWatch{broker: from}
	ctx, cancel := context.WithCancel(t.Context())
	watch := start(func() error { reach.run(ctx); return nil })
	began, last := time.Now(), ""
	// On a busy machine, the first reports may also contain broker 5.
	for last != "2:4" {
		last = <-reports
	}
	if took := time.Since(began); took < reachability.UnreachableAfter {
		t.Errorf("reported after %v", took)
	}
	cancel()
	for done := false; !done; {
		select {
		case <-reports:
		case <-watch.done:
			done = true
		}
	}
}
