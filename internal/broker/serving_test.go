package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// slowToHear is a metadata store that takes its time to hear what is served, as an API server with
// too much to do.
type slowToHear struct {
	Metadata
	heard chan []metadata.Served // takes what was told, one after the other
}

func (s *slowToHear) ReportServing(ctx context.Context, _ int32, served []metadata.Served) error {
	select {
	case s.heard <- served:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runWith runs a broker on other metadata until the test ends, a minute at most.
func (c *cluster) runWith(store Metadata) (context.Context, *Broker) {
	c.t.Helper()
	opts := c.options()
	opts.Metadata = store
	b, err := New(opts)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	running := start(func() error { return b.Run(ctx) })
	c.t.Cleanup(func() {
		stop()
		if <-running.done; running.err != nil {
			c.t.Error(running.err)
		}
	})
	return ctx, b
}

// TestImagesAreAppliedWhileTheClusterIsTold what is served; it then hears the newest, and need not
// hear all.
func TestImagesAreAppliedWhileTheClusterIsTold(t *testing.T) {
	c := newCluster(t)
	slow := &slowToHear{c.metadata, make(chan []metadata.Served)}
	ctx, b := c.runWith(slow)
	for i := range 3 {
		name := fmt.Sprint("more-", i)
		if _, err := c.metadata.CreateTopic(ctx,
			metadata.NewTopic{Name: name, Partitions: 1, Replicas: 1}); err != nil {
			t.Fatal(err)
		}
		b.await(ctx, func(image *metadata.Image) bool { return image.Topic(name) != nil })
		if b.image().Topic(name) == nil {
			t.Fatalf("topic %s was not applied before the cluster had heard of the one before",
				name)
		}
	}
	const partitions = 2 + 3
	for told := 0; ; told++ {
		var served []metadata.Served
		select {
		case served = <-slow.heard:
		case <-ctx.Done():
			t.Fatal("the cluster was not told of all partitions")
		}
		if len(served) == partitions {
			break
		}
	}
}

// failsToHear fails for the first calls.
type failsToHear struct {
	slowToHear
	fails int // of the goroutine that tells
}

func (f *failsToHear) ReportServing(ctx context.Context, broker int32,
	served []metadata.Served) error {
	if f.fails > 0 {
		f.fails--
		return errors.New("no API server")
	}
	return f.slowToHear.ReportServing(ctx, broker, served)
}

// TestTheClusterIsToldAgain what it could not be told.
func TestTheClusterIsToldAgain(t *testing.T) {
	c := newCluster(t)
	store := &failsToHear{slowToHear{c.metadata, make(chan []metadata.Served)}, 1}
	ctx, _ := c.runWith(store)
	select {
	case served := <-store.heard:
		if len(served) != 2 {
			t.Errorf("told of %v", served)
		}
	case <-ctx.Done():
		t.Error("told once, and not again")
	}
}

// TestFaultsInBrief: some of many, in one order, and those that say something in common stay whole.
func TestFaultsInBrief(t *testing.T) {
	both := fmt.Errorf("%w: %w", errors.New("disk"), errors.New("full"))
	if got := brief(errors.Join(nil, both)); got != "disk: full" {
		t.Error(got)
	}
	var faults []error
	for i := range 300 {
		faults = append(faults, fmt.Errorf("partition %03d", i))
	}
	want := brief(errors.Join(errors.Join(faults[:100]...), errors.Join(faults[100:]...),
		faults[7]))
	slices.Reverse(faults)
	if got := brief(errors.Join(faults...)); got != want ||
		!strings.HasPrefix(got, "partition 000\n") || !strings.HasSuffix(got, "\nand 295 more") {
		t.Errorf("%q and %q", got, want)
	}
}
