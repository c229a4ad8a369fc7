package metadatatest

import (
	"context"
	"errors"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// WriteFailer is a World that can make its store's writes fail.
type WriteFailer interface {
	// FailWrites(true) makes writes fail until FailWrites(false) is called.
	FailWrites(fail bool)
}

// testFailedWrite checks that a change that could not be written has no effect.
func testFailedWrite(c *cluster) {
	failer, ok := c.world.(WriteFailer)
	if !ok {
		c.Skip("the writes of this store cannot be made to fail")
	}
	b := c.startAll()[0]
	topic := b.create("a", 1)
	before := b.last()
	failer.FailWrites(true)
	for what, err := range map[string]error{
		"create": func() error {
			_, err := b.CreateTopic(c.Context(), metadata.NewTopic{Name: "b", Partitions: 1,
				Replicas: 1})
			return err
		}(),
		"delete": b.DeleteTopic(c.Context(), "a"),
		"alter": b.AlterTopic(c.Context(), metadata.TopicChange{Name: "a",
			Properties: change("cleanup.policy", metadata.PropertySet, "compact")}),
		"grow": b.CreatePartitions(c.Context(), metadata.NewPartitions{Name: "a", Count: 2}),
		"move": b.Reassign(c.Context(), []metadata.Move{{Topic: "a", Replicas: []int32{0, 2, 1}}})[0],
	} {
		if err == nil {
			c.Errorf("%s: got no error", what)
		}
	}
	if _, faults := b.propose(proposal(before, "a", 0, 0)); faults[0] == nil ||
		errors.Is(faults[0], metadata.ErrISRConflict) {
		c.Errorf("ISR: got error %v, want one of unknown outcome", faults[0])
	}
	failer.FailWrites(false)
	b.create("c", 1)
	image := b.until("topic c", exists("c"))
	if got := image.Topic("a"); len(image.Topics) != 2 || got == nil || got.Settings.Compact ||
		!got.Partitions[0].Equal(topic.Partitions[0]) {
		c.Errorf("got %d topics and %+v, want a as before and c", len(image.Topics), got)
	}
}

// testUnknownISR checks a change that takes longer than its context. Its outcome is unknown, and
// this is reported before ChangeISR returns. The store may already have made the change, or may
// make it later. The leader continues from the recorded ISR.
func testUnknownISR(c *cluster) {
	leader := c.startAll()[0]
	leader.create("a", 1)
	image := leader.inSync(0, 1, 2)
	for what, begin := range map[string]func() (context.Context, context.CancelFunc){
		"timeout": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(c.Context(), time.Millisecond)
		},
		"cancel": func() (context.Context, context.CancelFunc) {
			return context.WithCancel(c.Context())
		},
	} {
		waiting, end := c.world.Block()
		ctx, cancel := begin()
		to := []int32{0, 1}
		if len(image.Topic("a").Partitions[0].ISR) == 2 {
			to = []int32{0, 1, 2}
		}
		calls, outcome, returned := 0, error(nil), make(chan struct{})
		go func() {
			defer close(returned)
			leader.ChangeISR(ctx, []metadata.ISRChange{proposal(image, "a", 0, to...)},
				func(_ int, _ int64, err error) { calls, outcome = calls+1, err })
		}()
		if what == "cancel" {
			await.Until(c.TB, "the write waits", waiting)
			cancel()
		}
		<-returned
		if calls != 1 || outcome == nil || errors.Is(outcome, metadata.ErrISRConflict) {
			c.Errorf("%s: settled %d times, error %v; want once with an unknown outcome", what, calls,
				outcome)
		}
		cancel()
		end()
		image = c.agree(leader, to...)
	}
}

// agree proposes an ISR until this ISR is recorded.
func (c *cluster) agree(leader *broker, to ...int32) *metadata.Image {
	c.Helper()
	await.Until(c.TB, "the ISR is recorded", func() bool {
		image := leader.last()
		if slices.Equal(slices.Sorted(slices.Values(image.Topic("a").Partitions[0].ISR)), to) {
			return true
		}
		_, faults := leader.propose(proposal(image, "a", 0, to...))
		return faults[0] == nil
	})
	return leader.inSync(to...)
}
