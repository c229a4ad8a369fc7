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

// GroupsMax is the maximum number of groups on one page.
const GroupsMax = 200

// Group is a consumer group.
type Group struct {
	Name        string
	Type        string // consumer (KIP-848), classic, or another protocol type such as connect
	State       string
	Coordinator int32
	Members     []Member
	Offsets     []GroupOffset // sorted by topic and partition
	Err         error         // reason why the group could not be described
}

// Member is a group member.
type Member struct {
	ID, Instance, Client, Host string
	Partitions                 int // number of assigned partitions
}

// GroupOffset is a group's committed offset in one partition.
type GroupOffset struct {
	Topic     string
	Partition int32
	Committed int64 // -1: there is none
	Start     int64 // start offset of the log
	End       int64 // last stable offset
	Member    string
	Next      time.Time // timestamp of the next record to read; zero if unknown (AddWaits)
	Err       error
}

// Lag returns the number of offsets from the committed offset, or from the start of the log if that
// is higher, to the end. It returns false if the committed offset is unknown.
func (o *GroupOffset) Lag() (int64, bool) {
	if o.Err != nil || o.Committed < 0 {
		return 0, false
	}
	return max(0, o.End-max(o.Committed, o.Start)), true
}

// BelowStart reports whether records after the committed offset were deleted. The group then
// continues at the start or the end of the log, depending on auto.offset.reset.
func (o *GroupOffset) BelowStart() bool {
	return o.Err == nil && o.Committed >= 0 && o.Committed < o.Start
}

// Lag returns the sum over the partitions whose lag is known.
func (g *Group) Lag() (sum int64) {
	for i := range g.Offsets {
		lag, _ := g.Offsets[i].Lag()
		sum += lag
	}
	return sum
}

// Topics returns the sorted names of the topics for which the group has offsets.
func (g *Group) Topics() []string {
	names := map[string]bool{}
	for i := range g.Offsets {
		names[g.Offsets[i].Topic] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Groups returns the consumer groups with the given names, or all groups if names is empty, with
// their members and offsets, sorted by name. It returns at most GroupsMax groups; more reports
// whether there are others.
func (c *Client) Groups(ctx context.Context, names ...string) (groups []Group, more bool,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	listed, err := c.admin.ListGroups(ctx)
	if err != nil && len(listed) == 0 {
		return nil, false, fmt.Errorf("list groups: %w", err)
	}
	found := listed.Groups()
	if len(names) > 0 {
		found = slices.DeleteFunc(found, func(g string) bool { return !slices.Contains(names, g) })
	}
	if len(found) == 0 {
		return nil, false, nil
	}
	if more = len(found) > GroupsMax; more {
		found = found[:GroupsMax]
	}
	described := c.describe(ctx, found)
	offsets := c.admin.FetchManyOffsets(ctx, found...)
	logs, err := c.logs(ctx, offsets)
	if err != nil {
		return nil, false, err
	}
	for _, name := range found {
		group := described[name]
		group.Name = name
		group.State = cmp.Or(group.State, listed[name].State)
		group.Type = cmp.Or(group.Type, listed[name].ProtocolType)
		group.Err = cmp.Or(group.Err, offsets[name].Err)
		group.Offsets = rows(logs, offsets[name].Fetched, group.owners)
		groups = append(groups, group.Group)
	}
	return groups, more, nil
}

// partition identifies a partition of a topic.
type partition struct {
	topic string
	index int32
}

// describedGroup is a group with the member to which each partition is assigned.
type describedGroup struct {
	Group
	owners map[partition]string
}

// describe describes groups of both protocols. It tries the consumer protocol first, because
// brokers describe a group of the consumer protocol as dead in the classic protocol.
func (c *Client) describe(ctx context.Context, names []string) map[string]describedGroup {
	described := map[string]describedGroup{}
	var classic []string
	modern := kafkaclient.DescribeConsumer(ctx, c.admin, names...)
	for _, name := range names {
		g := modern[name]
		if kafkaclient.Classic(g) {
			classic = append(classic, name)
			continue
		}
		found := describedGroup{Group{Type: "consumer", State: g.State,
			Coordinator: g.Coordinator.NodeID, Err: g.Err}, map[partition]string{}}
		for _, m := range g.Members {
			found.add(Member{ID: m.MemberID, Instance: text(m.InstanceID), Client: m.ClientID,
				Host: m.ClientHost}, m.Assignment)
		}
		described[name] = found
	}
	if len(classic) == 0 {
		return described
	}
	groups, err := c.admin.DescribeGroups(ctx, classic...)
	for _, name := range classic {
		g, ok := groups[name]
		found := describedGroup{Group{Type: "classic", State: g.State,
			Coordinator: g.Coordinator.NodeID, Err: g.Err}, map[partition]string{}}
		if !ok {
			found.Err = err
		}
		for _, m := range g.Members {
			assigned := kadm.TopicsSet{}
			if a, ok := m.Assigned.AsConsumer(); ok {
				for _, t := range a.Topics {
					assigned.Add(t.Topic, t.Partitions...)
				}
			}
			found.add(Member{ID: m.MemberID, Instance: text(m.InstanceID), Client: m.ClientID,
				Host: m.ClientHost}, assigned)
		}
		described[name] = found
	}
	return described
}

func (g *describedGroup) add(m Member, assigned kadm.TopicsSet) {
	for topic, partitions := range assigned {
		for index := range partitions {
			g.owners[partition{topic, index}] = cmp.Or(m.Instance, m.ID)
			m.Partitions++
		}
	}
	g.Members = append(g.Members, m)
}

// logs requests the start and end offsets of the topics for which groups have committed offsets.
func (c *Client) logs(ctx context.Context,
	fetchOffsetsResponses kadm.FetchOffsetsResponses) (bounds kafkaclient.Bounds, err error) {
	topics := map[string]bool{}
	for _, group := range fetchOffsetsResponses {
		for topic := range group.Fetched {
			topics[topic] = true
		}
	}
	if len(topics) == 0 {
		return bounds, nil
	}
	return kafkaclient.Ask{Committed: true}.List(ctx, c.admin, slices.Sorted(maps.Keys(topics))...)
}

// rows returns a group's rows, sorted by topic and partition.
func rows(bounds kafkaclient.Bounds, committed kadm.OffsetResponses,
	owners map[partition]string) (rows []GroupOffset) {
	for topic, partitions := range committed {
		for index, offsetResponse := range partitions {
			start, _ := bounds.Starts.Lookup(topic, index)
			end, ok := bounds.Ends.Lookup(topic, index)
			row := GroupOffset{Topic: topic, Partition: index, Committed: offsetResponse.At,
				Start: start.Offset, End: end.Offset, Member: owners[partition{topic, index}],
				Err: cmp.Or(offsetResponse.Err, start.Err, end.Err)}
			if !ok && row.Err == nil {
				row.Err = errUnknownPartition
			}
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b GroupOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return rows
}

var errUnknownPartition = fmt.Errorf("the partition does not exist any more")

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
