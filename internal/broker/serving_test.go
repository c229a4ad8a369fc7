package broker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// slowStore is a metadata store whose ReportServing blocks until the test receives the report, like
// a slow API server.
type slowStore struct {
	Metadata
	reports chan []metadata.Served // receiver of each report
}

func (s *slowStore) ReportServing(ctx context.Context, _ int32, served []metadata.Served) error {
	select {
	case s.reports <- served:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runWith runs a broker with the given metadata store until the test ends, but no longer than
// await.Limit.
func (c *cluster) runWith(store Metadata) (context.Context, *Broker) {
	c.t.Helper()
	opts := c.options()
	opts.Metadata = store
	b, err := New(opts)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), await.Limit)
	running := start(func() error { return b.Run(ctx) })
	c.t.Cleanup(func() {
		stop()
		if <-running.done; running.err != nil {
			c.t.Error(running.err)
		}
	})
	return ctx, b
}

// TestImagesAreAppliedDuringAReport checks that images are applied while a report blocks. The next
// report must contain the newest list; lists in between may be skipped.
func TestImagesAreAppliedDuringAReport(t *testing.T) {
	c := newCluster(t)
	slow := &slowStore{c.metadata, make(chan []metadata.Served)}
	ctx, b := c.runWith(slow)
	for i := range 3 {
		name := fmt.Sprint("more-", i)
		if _, err := c.metadata.CreateTopic(ctx,
			metadata.NewTopic{Name: name, Partitions: 1, Replicas: 1}); err != nil {
			t.Fatal(err)
		}
		b.await(ctx, func(image *metadata.Image) bool { return image.Topic(name) != nil })
		if b.image().Topic(name) == nil {
			t.Fatalf("topic %s was not applied while the report blocked",
				name)
		}
	}
	const partitions = 2 + 3
	for {
		var served []metadata.Served
		select {
		case served = <-slow.reports:
		case <-ctx.Done():
			t.Fatal("not all partitions were reported")
		}
		if len(served) == partitions {
			break
		}
	}
}

// failingStore is a slowStore whose first reports fail.
type failingStore struct {
	slowStore
	fails int // number of reports that still fail; only the reporting goroutine uses it
}

func (f *failingStore) ReportServing(ctx context.Context, broker int32,
	served []metadata.Served) error {
	if f.fails > 0 {
		f.fails--
		return errors.New("no API server")
	}
	return f.slowStore.ReportServing(ctx, broker, served)
}

// TestFailedReportIsRetried checks that the broker reports again after the first report has failed.
func TestFailedReportIsRetried(t *testing.T) {
	c := newCluster(t)
	store := &failingStore{slowStore{c.metadata, make(chan []metadata.Served)}, 1}
	ctx, _ := c.runWith(store)
	select {
	case served := <-store.reports:
		if len(served) != 2 {
			t.Errorf("got report %v, want 2 partitions", served)
		}
	case <-ctx.Done():
		t.Error("the report was not repeated")
	}
}
