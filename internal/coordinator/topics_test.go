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

// What becomes of an offset when its topic does what the case says, with a coordinator that looks
// on, and with one that comes later.
func TestOffsetsOfDeletedTopicsGo(t *testing.T) {
	first, second := metadata.ID{1}, metadata.ID{2}
	topic := func(id metadata.ID, retain bool) *metadata.Topic {
		return &metadata.Topic{Name: "t", ID: id, RetainData: retain}
	}
	for name, test := range map[string]struct {
		was      *metadata.Topic
		then     []*metadata.Topic // in turn; nil: no topic of the name
		watched  bool
		survives bool
	}{
		"it stays": {topic(first, false),
			[]*metadata.Topic{topic(first, false)}, true, true},
		"it is deleted": {topic(first, false), []*metadata.Topic{nil}, true,
			false},
		"it is deleted and made again": {topic(first, false),
			[]*metadata.Topic{nil, topic(second, false)}, true, false},
		"it is another at once": {topic(first, false),
			[]*metadata.Topic{topic(second, true)}, true, false},
		"its records are kept": {topic(first, true), []*metadata.Topic{nil}, true,
			true},
		"its records are taken up": {topic(first, true),
			[]*metadata.Topic{nil, topic(second, true)}, true, true},
		"unseen, it is made again": {topic(first, false),
			[]*metadata.Topic{topic(second, false)}, false, false},
		"unseen, its records are taken up": {topic(first, true),
			[]*metadata.Topic{topic(second, true)}, false, true},
		"unseen, nobody knows": {topic(first, false), []*metadata.Topic{nil}, false,
			true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk, id := vfs.NewMem(), metadata.NewID()
				b := newBroker(t, disk, id)
				defer func() { b.stop() }()
				b.topics = []*metadata.Topic{test.was}
				b.lead(1, self)
				b.loaded()
				must(t, b.commitOf(first))
				if !test.watched {
					b.stop()
					b = newBroker(t, disk, id)
				}
				for i, then := range test.then {
					if b.topics = nil; then != nil {
						b.topics = []*metadata.Topic{then}
					}
					b.lead(int32(map[bool]int{true: 1, false: 2 + i}[test.watched]), self)
					b.loaded()
				}
				want := map[bool]int64{true: 7, false: -1}[test.survives]
				if got, err := b.committed(); got != want || err != nil {
					t.Errorf("offset %d, %v; want %d", got, err, want)
				}
			})
		})
	}
}

// commitOf commits offset 7 of the topic with that id.
func (b *broker) commitOf(id metadata.ID) error {
	errs, err := b.Commit(b.t.Context(), group.Commit{
		Group: "g", Generation: -1,
		Offsets: []group.CommitOffset{{Topic: "t",
			Offset: group.Offset{Offset: 7, LeaderEpoch: -1, ExpireMs: -1, TopicID: id}}},
	})
	if err == nil {
		err = errs[0]
	}
	return err
}

// The cluster's settings hold from the image on that has them, for a shard that runs as for one
// that comes.
func TestSettingsOfTheClusterHoldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.stop()
		b.lead(1, self)
		b.loaded()
		join := func(session time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := b.Join(ctx, group.Join{
				Group: "other", NewMember: "m", Session: session, ProtocolType: "consumer",
				Protocols: []group.Protocol{{Name: "range"}}, IDFirst: true,
			})
			return err
		}
		if err := join(time.Second); !errors.Is(err, group.ErrInvalidSession) {
			t.Errorf("by default: %v", err)
		}
		b.groups = metadata.Groups{SessionMin: time.Second, SessionMax: time.Minute,
			OffsetsRetention: time.Minute, OffsetsCheckInterval: time.Second}
		for epoch := range int32(2) {
			b.lead(1+epoch, self)
			b.loaded()
			if err := join(time.Second); !errors.Is(err, group.ErrMemberIDRequired) {
				t.Errorf("epoch %d, with a lower limit: %v", 1+epoch, err)
			}
			if err := join(2 * time.Minute); !errors.Is(err, group.ErrInvalidSession) {
				t.Errorf("epoch %d, above the limit: %v", 1+epoch, err)
			}
			must(t, b.commit(7, "", -1))
			time.Sleep(58 * time.Second)
			if got, err := b.committed(); got != 7 || err != nil {
				t.Errorf("before the retention is over: %d, %v", got, err)
			}
			time.Sleep(4 * time.Second)
			if got, err := b.committed(); got != -1 || err != nil {
				t.Errorf("after it: %d, %v", got, err)
			}
		}
	})
}
