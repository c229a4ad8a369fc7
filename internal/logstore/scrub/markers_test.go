package scrub

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/repair"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// markerSource is a replica whose transaction markers differ from those of the other replica.
type markerSource struct {
	logSource
	change func(*record.Control)
}

func (s markerSource) Read(ctx context.Context, offset int64) (changed []byte, err error) {
	batches, err := s.logSource.Read(ctx, offset)
	for err == nil && len(batches) > 0 {
		var b record.Batch
		if b, batches, err = record.Next(batches); err != nil {
			break
		}
		marker, ok, failed := b.Marker()
		if err = failed; !ok {
			changed = append(changed, b...)
			continue
		}
		s.change(&marker)
		changed, err = record.AppendMarker(changed, record.IdentityOf(b), b.MaxTimestamp(), marker)
	}
	return changed, err
}

// markerLogs returns two equal logs with an aborted and a committed transaction, and a segment at
// rest of the first one that contains both. If the topic is compacted, the first log is cleaned.
func markerLogs(t *testing.T, compacted bool) (*replicas, logstore.AtRest) {
	t.Helper()
	settings := storetest.Settings(nil)
	if compacted {
		settings = storetest.Compacted(func(*topicconfig.Settings) {})
	}
	settings.SegmentBytes = 3000
	r := openReplicas(t, settings)
	for i := range 20 {
		b := storetest.Batch{Keys: []string{fmt.Sprintf("k%d", i)},
			Value: strings.Repeat("v", 200), Timestamp: time.Now()}
		if i != 1 && i != 3 {
			add(t, r.logs[0], b.Bytes(t))
			continue
		}
		b.Producer, b.Sequence, b.Transactional = 8, int32(i/2), true
		_, err := r.logs[0].AppendVerified(b.Bytes(t), logstore.Verified{Transaction: true},
			time.Now())
		if err == nil {
			_, err = r.logs[0].AppendControl(logstore.EndTxn{ProducerID: 8, Commit: i == 1,
				CoordinatorEpoch: 5}, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	r.replicate(t)
	if compacted {
		r.clean(t, 0)
	}
	for _, c := range r.cleaners {
		c.Close()
	}
	await.Until(t, "a segment at rest", func() bool { return len(r.logs[0].AtRest()) > 0 })
	return r, r.logs[0].AtRest()[0]
}

// flipIn flips a bit of the first batch of a segment that satisfies a condition.
func flipIn(t *testing.T, r *replicas, sealed logstore.AtRest, which func(record.Batch) bool) {
	t.Helper()
	name := filepath.Join(r.logs[0].Dir(), segment.Name(sealed.Base, segment.LogExtension, ""))
	content := read(t, r.disks[0], name)
	for rest, position := content, 0; len(rest) > 0; {
		b, left, err := record.Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		if which(b) {
			content[position+len(b)-1] ^= 1
			file, err := r.disks[0].OpenReadWrite(name)
			if err == nil {
				_, err = file.WriteAt(content, 0)
				err = errors.Join(err, file.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		position, rest = position+len(b), left
	}
	t.Fatal("no such batch")
}

func marks(kind record.ControlType) func(record.Batch) bool {
	return func(b record.Batch) bool {
		marker, ok, _ := b.Marker()
		return ok && marker.Type == kind
	}
}

func isData(b record.Batch) bool { return !b.Control() }

// TestRepairComparesMarkers checks that a repair uses no records of a replica whose transaction
// markers differ from the log's own, by kind or by the epoch of the coordinator.
func TestRepairComparesMarkers(t *testing.T) {
	same := func(*record.Control) {}
	otherEpoch := func(c *record.Control) { c.CoordinatorEpoch++ }
	otherKind := func(c *record.Control) { c.Type = 1 - c.Type }
	for name, test := range map[string]struct {
		compacted bool
		damaged   func(record.Batch) bool
		change    func(*record.Control)
		differs   bool
	}{
		"cleaned, damaged marker":              {true, marks(record.ControlCommit), same, false},
		"cleaned, other kind":                  {true, marks(record.ControlCommit), otherKind, true},
		"cleaned, abort that is a commit":      {true, marks(record.ControlAbort), otherKind, true},
		"cleaned, other epoch":                 {true, marks(record.ControlCommit), otherEpoch, true},
		"not compacted":                        {false, isData, same, false},
		"not compacted, other kind":            {false, isData, otherKind, true},
		"not compacted, other epoch":           {false, isData, otherEpoch, true},
		"not compacted, damaged abort":         {false, marks(record.ControlAbort), same, false},
		"not compacted, damaged abort differs": {false, marks(record.ControlAbort), otherKind, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, sealed := markerLogs(t, test.compacted)
			before := content(t, r.logs[0])
			flipIn(t, r, sealed, test.damaged)
			err := sealed.ReplaceRecords(t.Context(),
				markerSource{logSource{r.logs[1]}, test.change}, nil)
			if test.differs {
				if !errors.Is(err, repair.ErrSource) {
					t.Errorf("error %v, want ErrSource", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := content(t, r.logs[0]); !maps.Equal(got, before) {
				t.Errorf("%v, want %v", got, before)
			}
		})
	}
}
