package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/kafkaclient"
)

// Group is a consumer group.
type Group struct {
	Group       string `json:"group"`
	State       string `json:"state"`
	Coordinator int32  `json:"coordinator"`
	Members     int    `json:"members"`
	// Lag is the number of offsets from the committed offsets to the ends of the partitions, or -1 if
	// it is unknown. A compacted partition has fewer records than offsets.
	Lag        int64            `json:"lag"`
	Partitions []GroupPartition `json:"partitions"`
	Error      string           `json:"error,omitempty"`
}

// Absent reports whether the group does not exist. A coordinator describes a group that it does not
// know as dead.
func (g *Group) Absent() bool { return g.State == "Dead" && len(g.Partitions) == 0 }

// GroupPartition is a partition for which the group has a committed offset, or that a member
// consumes.
type GroupPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	// Committed is the committed offset, or -1 if there is none. Start is the partition's first
	// offset, and End is its last offset plus one. Lag is -1 if it is unknown.
	Committed int64 `json:"committed"`
	Start     int64 `json:"start"`
	End       int64 `json:"end"`
	Lag       int64 `json:"lag"`
	// BelowStart is true if the committed offset is below Start: records were deleted before the group
	// read them.
	BelowStart bool   `json:"belowStart,omitempty"`
	Member     string `json:"member,omitempty"`
	Host       string `json:"host,omitempty"`
}

// Groups returns the groups with the given names, or all groups, sorted by name. If a broker does
// not respond, its groups are not in the list of all groups, and missing contains the cause.
func Groups(ctx context.Context, o kafkaclient.Options, names []string) (groups []Group,
	missing, err error) {
	client, err := kafkaclient.Connect(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if len(names) == 0 {
		listed, err := admin.ListGroups(ctx)
		if silent, ok := errors.AsType[*kadm.ShardErrors](err); ok && !silent.AllFailed {
			missing = err
		} else if err != nil {
			return nil, nil, fmt.Errorf("list groups: %w", err)
		}
		if names = listed.Groups(); len(names) == 0 {
			return []Group{}, missing, nil
		}
	}
	var older []string
	var newer []kadm.DescribedConsumerGroup
	for _, group := range kafkaclient.DescribeConsumer(ctx, admin, names...) {
		if kafkaclient.Classic(group) {
			older = append(older, group.Group)
			continue
		}
		newer = append(newer, group)
	}
	if groups, err = consumerGroups(ctx, admin, newer); err != nil {
		return nil, nil, err
	}
	if len(older) > 0 { // without names, Lag would return all groups
		lags, err := admin.Lag(ctx, older...)
		if err != nil {
			return nil, nil, fmt.Errorf("request the lag of groups: %w", err)
		}
		for _, lag := range lags {
			groups = append(groups, newGroup(lag))
		}
	}
	slices.SortFunc(groups, func(a, b Group) int { return cmp.Compare(a.Group, b.Group) })
	return groups, missing, nil
}

func newGroup(lag kadm.DescribedGroupLag) Group {
	g := Group{Group: lag.Group, State: lag.State, Coordinator: lag.Coordinator.NodeID,
		Members: len(lag.Members), Partitions: []GroupPartition{}}
	if err := lag.Error(); err != nil {
		g.Error, g.Lag = err.Error(), -1
		return g
	}
	for _, groupMemberLag := range lag.Lag.Sorted() {
		p := GroupPartition{Topic: groupMemberLag.Topic, Partition: groupMemberLag.Partition,
			Committed: groupMemberLag.Commit.At,
			Start:     groupMemberLag.Start.Offset, End: groupMemberLag.End.Offset, Lag: groupMemberLag.Lag}
		p.BelowStart = p.Committed >= 0 && groupMemberLag.Start.Err == nil && p.Committed < p.Start
		if groupMemberLag.Member != nil {
			p.Member, p.Host = groupMemberLag.Member.ClientID, groupMemberLag.Member.ClientHost
		}
		if g.Lag >= 0 {
			if g.Lag += max(0, p.Lag); p.Lag < 0 {
				g.Lag = -1
			}
		}
		g.Partitions = append(g.Partitions, p)
	}
	return g
}

// Reset describes the offsets to which a group will be reset.
type Reset struct {
	Group string
	Topic string // "": every topic for which the group has committed offsets
	// To is Earliest, Latest, AtTime or AtOffset.
	To     kafkaclient.Position
	Millis int64 // time for AtTime, Unix milliseconds
	Offset int64 // offset for AtOffset
}

// Change is the change of one committed offset.
type Change struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // -1: no offset is committed
	To        int64  `json:"to"`
}

// PlanReset returns the changes that a reset makes, sorted by topic and partition. It fails if the
// group has members, because the coordinator would refuse the reset, and later commits of the
// members would undo it.
func PlanReset(ctx context.Context, o kafkaclient.Options, reset Reset) ([]Change, error) {
	client, err := kafkaclient.Connect(ctx, o)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if err := inactive(ctx, admin, reset.Group); err != nil {
		return nil, err
	}
	committed, err := admin.FetchOffsets(ctx, reset.Group)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("request the offsets of group %s: %w", reset.Group, err)
	}
	topics := slices.Sorted(maps.Keys(committed))
	if reset.Topic != "" {
		topics = []string{reset.Topic}
	}
	if len(topics) == 0 {
		return nil, fmt.Errorf("group %s has committed no offsets: name a topic", reset.Group)
	}
	return reset.changes(ctx, admin, committed, topics)
}

// inactive returns an error if the group has members, in either protocol, or if this is unknown.
func inactive(ctx context.Context, admin *kadm.Client, name string) error {
	group := kafkaclient.DescribeConsumer(ctx, admin, name)[name]
	if !kafkaclient.Classic(group) {
		return noMembers(name, len(group.Members), group.Err)
	}
	described, err := admin.DescribeGroups(ctx, name)
	if err != nil {
		return fmt.Errorf("describe group %s: %w", name, err)
	}
	return inactiveClassic(described, name)
}

// inactiveClassic returns an error if a classic protocol group has or may have members. A group
// that does not exist has none.
func inactiveClassic(described kadm.DescribedGroups, name string) error {
	group, found := described[name]
	switch {
	case !found:
		return fmt.Errorf("describe group %s: %w", name, kafkaclient.ErrNoAnswer)
	case errors.Is(group.Err, kerr.GroupIDNotFound):
		return nil
	}
	return noMembers(name, len(group.Members), group.Err)
}

func noMembers(name string, members int, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("describe group %s: %w", name, err)
	case members > 0:
		return fmt.Errorf("group %s has %d members: stop them first", name, members)
	}
	return nil
}

func (r Reset) changes(ctx context.Context, admin *kadm.Client, committed kadm.OffsetResponses,
	topics []string) ([]Change, error) {
	ask := kafkaclient.Ask{}
	if r.To == kafkaclient.AtTime {
		ask.Since = new(time.UnixMilli(r.Millis))
	}
	bounds, err := ask.List(ctx, admin, topics...)
	if err != nil {
		return nil, err
	}
	var changes []Change
	for topic, partitions := range bounds.Ends {
		for partition := range partitions {
			to, err := bounds.Offset(topic, partition, r.To, r.Offset)
			if err != nil {
				return nil, fmt.Errorf("list the offsets of %s-%d: %w", topic, partition, err)
			}
			from := int64(-1)
			if offset, found := committed.Lookup(topic, partition); found {
				from = offset.At
			}
			changes = append(changes, Change{topic, partition, from, to})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return changes, nil
}

// Commit commits the changed offsets for the group.
func Commit(ctx context.Context, o kafkaclient.Options, group string, changes []Change) error {
	client, err := kafkaclient.Connect(ctx, o)
	if err != nil {
		return err
	}
	defer client.Close()
	return commit(ctx, client, group, changes)
}

func commit(ctx context.Context, client *kgo.Client, group string, changes []Change) error {
	offsets := kadm.Offsets{}
	for _, c := range changes {
		offsets.AddOffset(c.Topic, c.Partition, c.To, -1)
	}
	if err := kadm.NewClient(client).CommitAllOffsets(ctx, group, offsets); err != nil {
		return fmt.Errorf("commit the offsets of group %s: %w", group, err)
	}
	return nil
}
