package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestOverridesOfTheImageApply checks that, after a metadata image has changed one group's
// settings, both the loaded shard and a shard that loads later use the new settings.
func TestOverridesOfTheImageApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, id := vfs.NewMem(), metadata.NewID()
		b := newBroker(t, disk, id)
		defer func() { b.Stop() }()
		b.Lead(1, self)
		b.awaitLoaded()
		if a, err := b.heartbeat("a", 0, nil); err != nil || a.Interval != 5*time.Second {
			t.Fatalf("a joins: %+v, %v", a, err)
		}
		overrides := map[string]metadata.GroupOverride{
			"g": {ConsumerSession: time.Hour, ConsumerInterval: 9 * time.Second}}
		b.Overrides = overrides
		b.Lead(1, self) // applies an image in which only the overrides differ
		synctest.Wait()
		if a, err := b.heartbeat("a", 1, nil); err != nil || a.Interval != 9*time.Second {
			t.Errorf("in the loaded shard: %+v, %v", a, err)
		}
		b.Stop()
		b = newBroker(t, disk, id)
		b.Overrides = overrides
		b.Lead(2, self)
		b.awaitLoaded()
		time.Sleep(59 * time.Minute)
		if d, err := b.DescribeConsumer(t.Context(), "g"); err != nil || d.State != "Stable" {
			t.Errorf("within the session of the override: %+v, %v", d, err)
		}
		time.Sleep(2 * time.Minute)
		// A group without members and offsets is soon deleted.
		if d, err := b.DescribeConsumer(t.Context(), "g"); err == nil && d.State != "Empty" {
			t.Errorf("after the session of the override: %+v", d)
		}
	})
}

// TestAssignmentIntervalOfTheImageApplies checks that the LogCluster's minimum time between two
// assignments applies to all groups.
func TestAssignmentIntervalOfTheImageApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.GroupSettings.ConsumerAssignment = 10 * time.Second
		b.Lead(1, self)
		b.awaitLoaded()
		for _, id := range []string{"a", "b"} {
			if answer, err := b.heartbeat(id, 0, nil); err != nil || answer.Epoch != 1 {
				t.Errorf("%s joins: %+v, %v", id, answer, err)
			}
		}
		time.Sleep(10 * time.Second)
		if answer, err := b.heartbeat("b", 1, nil); err != nil || answer.Epoch != 2 {
			t.Errorf("b after the interval: %+v, %v", answer, err)
		}
	})
}

// TestDefaultsOfGroupConfigs checks that DescribeConfigs returns the defaults that the coordinator
// uses for a group.
func TestDefaultsOfGroupConfigs(t *testing.T) {
	used := group.Config{}.WithDefaults()
	want := map[string]time.Duration{"consumer.heartbeat.interval.ms": used.ConsumerInterval,
		"consumer.session.timeout.ms":     used.ConsumerSession,
		"consumer.assignment.interval.ms": used.ConsumerAssignment}
	configs := metadata.GroupConfigs(metadata.Groups{}, metadata.GroupOverride{})
	if len(configs) != len(want) {
		t.Errorf("got %d configs, want %d", len(configs), len(want))
	}
	for _, c := range configs {
		if c.Default != want[c.Name] {
			t.Errorf("%s: described default %v, used %v", c.Name, c.Default, want[c.Name])
		}
	}
}
