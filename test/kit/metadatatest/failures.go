package metadatatest

import (
	"errors"

	"heartwood.dev/heartwood/internal/metadata"
)

// WriteFailer is a World that can make the writes of its store fail.
type WriteFailer interface {
	// FailWrites makes writes fail until it is called with false.
	FailWrites(fail bool)
}

// testFailedWrite: a change that could not be written changes nothing.
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
