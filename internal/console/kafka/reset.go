package kafka

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"heartwood.dev/heartwood/internal/kafkaclient"
)

// Kinds of Target.
const (
	ToEarliest = "earliest" // the start of the log
	ToLatest   = "latest"   // the end of the log
	ToOffset   = "offset"
	ToTime     = "time"   // the first record at or after a time, or the end of the log
	ToNothing  = "delete" // removal of the committed offset
)

// Target is the position to which a group's committed offsets are moved.
type Target struct {
	Kind   string
	Offset int64     // for ToOffset
	Time   time.Time // for ToTime
}

// Change is a planned change of one committed offset.
type Change struct {
	Topic         string
	Partition     int32
	Before, After int64 // -1: no committed offset
	// Cut is true if the requested offset is not in the log. After is then the start or the end of the
	// log.
	Cut bool
}

// PlanOffsets returns the changes that move a group's offsets, sorted by topic and partition. The
// changes concern one topic or, if topic is "", all partitions for which the group has committed
// offsets. partition is a partition of the topic, or AnyPartition for all of them.
func (c *Client) PlanOffsets(ctx context.Context, group *Group, topic string, partition int32,
	to Target) (changes []Change, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	before := map[string]map[int32]int64{}
	for i := range group.Offsets {
		o := &group.Offsets[i]
		if before[o.Topic] == nil {
			before[o.Topic] = map[int32]int64{}
		}
		before[o.Topic][o.Partition] = o.Committed
	}
	topics := slices.Sorted(maps.Keys(before))
	if topic != "" {
		topics = []string{topic}
	}
	if len(topics) == 0 {
		return nil, nil
	}
	if to.Kind == ToNothing {
		return withoutOffsets(before, topics, partition), nil
	}
	ask := kafkaclient.Ask{}
	if to.Kind == ToTime {
		ask.Since = &to.Time
	}
	bounds, err := ask.List(ctx, c.admin, topics...)
	if err != nil {
		return nil, err
	}
	for _, name := range topics {
		for index := range bounds.Starts[name] {
			if partition != AnyPartition && partition != index {
				continue
			}
			committed, known := before[name][index]
			switch {
			case known:
			case topic == "":
				continue // plan only committed offsets
			default:
				committed = -1
			}
			change, err := change(&bounds, name, index, to)
			if err != nil {
				return nil, err
			}
			change.Before = committed
			changes = append(changes, change)
		}
	}
	if len(changes) == 0 {
		return nil, fmt.Errorf("plan offsets of topic %s: %w", topic, errNoPartition)
	}
	sortChanges(changes)
	return changes, nil
}

// withoutOffsets returns the changes that delete committed offsets.
func withoutOffsets(before map[string]map[int32]int64, topics []string,
	partition int32) (changes []Change) {
	for _, name := range topics {
		for index, committed := range before[name] {
			if partition == AnyPartition || partition == index {
				changes = append(changes, Change{Topic: name, Partition: index, Before: committed,
					After: -1})
			}
		}
	}
	sortChanges(changes)
	return changes
}

func sortChanges(changes []Change) {
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}

// positions contains the position in a log for each kind of Target.
var positions = map[string]kafkaclient.Position{ToEarliest: kafkaclient.Earliest,
	ToLatest: kafkaclient.Latest, ToTime: kafkaclient.AtTime, ToOffset: kafkaclient.AtOffset}

// change returns the change of one partition's offset.
func change(bounds *kafkaclient.Bounds, topic string, partition int32, to Target) (Change, error) {
	after, err := bounds.Offset(topic, partition, positions[to.Kind], to.Offset)
	if err != nil {
		return Change{}, fmt.Errorf("read offsets of %s-%d: %w", topic, partition, err)
	}
	return Change{Topic: topic, Partition: partition, After: after,
		Cut: to.Kind == ToOffset && after != to.Offset}, nil
}

// ChangeOffsets makes the changes. The group must have no members. If some changes fail, it still
// makes the others, and returns the first error.
func (c *Client) ChangeOffsets(ctx context.Context, group string, changes []Change) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	commit, remove := kadm.Offsets{}, kadm.TopicsSet{}
	for _, change := range changes {
		if change.After < 0 {
			remove.Add(change.Topic, change.Partition)
		} else {
			commit.AddOffset(change.Topic, change.Partition, change.After, -1)
		}
	}
	if len(commit) > 0 {
		if err := c.admin.CommitAllOffsets(ctx, group, commit); err != nil {
			return fmt.Errorf("commit offsets of group %s: %w", group, err)
		}
	}
	if len(remove) == 0 {
		return nil
	}
	removed, err := c.admin.DeleteOffsets(ctx, group, remove)
	if err = cmp.Or(err, removed.Error()); err != nil {
		return fmt.Errorf("delete offsets of group %s: %w", group, err)
	}
	return nil
}

// DeleteGroup deletes a group and its offsets. The group must have no members.
func (c *Client) DeleteGroup(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	deleted, err := c.admin.DeleteGroup(ctx, group)
	if err = cmp.Or(err, deleted.Err); err != nil {
		return fmt.Errorf("delete group %s: %w", group, err)
	}
	return nil
}
