package coordinator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestOffsetsOfDeletedTopicsAreDeleted checks that an offset is deleted when its topic is deleted
// or re-created, unless the offset is still valid for the topic. This happens either while the
// coordinator is loaded (watched), or before it loads the partition again.
func TestOffsetsOfDeletedTopicsAreDeleted(t *testing.T) {
	first, second := metadata.ID{1}, metadata.ID{2}
	topic := func(id metadata.ID, retain bool) *metadata.Topic {
		return &metadata.Topic{Name: "t", ID: id, RetainData: retain}
	}
	for name, test := range map[string]struct {
		before   *metadata.Topic
		images   []*metadata.Topic // topic in each image; nil if no topic has the name
		watched  bool
		survives bool
	}{
		"unchanged": {topic(first, false),
			[]*metadata.Topic{topic(first, false)}, true, true},
		"deleted": {topic(first, false), []*metadata.Topic{nil}, true,
			false},
		"deleted and created again": {topic(first, false),
			[]*metadata.Topic{nil, topic(second, false)}, true, false},
		"replaced in one image": {topic(first, false),
			[]*metadata.Topic{topic(second, true)}, true, false},
		"deleted with retained records": {topic(first, true), []*metadata.Topic{nil}, true,
			true},
		"created again with retained records": {topic(first, true),
			[]*metadata.Topic{nil, topic(second, true)}, true, true},
		"unwatched: created again": {topic(first, false),
			[]*metadata.Topic{topic(second, false)}, false, false},
		"unwatched: created again with retained records": {topic(first, true),
			[]*metadata.Topic{topic(second, true)}, false, true},
		"unwatched: no topic of the name": {topic(first, false), []*metadata.Topic{nil}, false,
			true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, id := vfs.NewMem(), metadata.NewID()
				b := newBroker(t, disk, id)
				defer func() { b.Stop() }()
				b.OtherTopics = []*metadata.Topic{test.before}
				b.Lead(1, self)
				b.awaitLoaded()
				must(t, b.commitFor(first, 7, "", -1))
				if !test.watched {
					b.Stop()
					b = newBroker(t, disk, id)
				}
				for i, topic := range test.images {
					if b.OtherTopics = nil; topic != nil {
						b.OtherTopics = []*metadata.Topic{topic}
					}
					b.Lead(int32(map[bool]int{true: 1, false: 2 + i}[test.watched]), self)
					b.awaitLoaded()
				}
				want := map[bool]int64{true: 7, false: -1}[test.survives]
				if got, err := b.committed(); got != want || err != nil {
					t.Errorf("offset %d, %v; want %d", got, err, want)
				}
			})
		})
	}
}

// TestClusterSettingsApplyAtOnce checks that group settings in a new image apply at once to the
// loaded shard, and also to a shard that loads later.
func TestClusterSettingsApplyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		b.awaitLoaded()
		join := func(session time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := b.Join(ctx, group.Join{
				Group: "other", NewMember: "m", Session: session, ProtocolType: "consumer",
				Protocols: []group.Protocol{{Name: "range"}}, RequireMemberID: true,
			})
			return err
		}
		if err := join(time.Second); !errors.Is(err, group.ErrInvalidSession) {
			t.Errorf("with the default limits: %v", err)
		}
		b.GroupSettings = metadata.Groups{SessionMin: time.Second, SessionMax: time.Minute,
			OffsetsRetention: time.Minute, OffsetsCheckInterval: time.Second}
		for epoch := range int32(2) {
			b.Lead(1+epoch, self)
			b.awaitLoaded()
			if err := join(time.Second); !errors.Is(err, group.ErrMemberIDRequired) {
				t.Errorf("epoch %d, within the limits: %v", 1+epoch, err)
			}
			if err := join(2 * time.Minute); !errors.Is(err, group.ErrInvalidSession) {
				t.Errorf("epoch %d, above the limit: %v", 1+epoch, err)
			}
			must(t, b.commit(7, "", -1))
			time.Sleep(58 * time.Second)
			if got, err := b.committed(); got != 7 || err != nil {
				t.Errorf("before the retention ends: %d, %v", got, err)
			}
			time.Sleep(4 * time.Second)
			if got, err := b.committed(); got != -1 || err != nil {
				t.Errorf("after the retention: %d, %v", got, err)
			}
		}
	})
}
