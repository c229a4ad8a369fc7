package segment

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestConcurrentReadsAppendsAndSyncs checks that readers that run concurrently with appends and
// syncs see only complete and correct batches, and all batches that existed when they started. Run
// this test with -race.
func TestConcurrentReadsAppendsAndSyncs(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"OS": vfs.OS{}, "Mem": vfs.NewMem()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, fsys.MkdirAll(dir))
			s, err := Create(fsys, dir, 0, "", Config{IndexIntervalBytes: 200, UnwrittenEntriesMax: 3})
			must(t, err)
			var done atomic.Bool
			var others sync.WaitGroup
			for seed := range uint64(2) {
				others.Go(func() {
					random := rand.New(rand.NewPCG(seed, 0))
					for !done.Load() {
						if err := readSome(s, random); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			others.Go(func() {
				for !done.Load() {
					s.cfg.Handles.CloseIdle()
					if err := errors.Join(s.Sync(), s.SyncIdleIndexes()); err != nil {
						t.Error(err)
						return
					}
				}
			})
			m := &model{}
			for range 1000 {
				b := batchOf(t, m.next(), 2, 1000+m.next(), 50)
				if err := s.Append(b); err != nil {
					t.Error(err)
					break
				}
				m.batches = append(m.batches, b)
			}
			done.Store(true)
			others.Wait()
			m.check(t, s, newRandom(t))
			must(t, s.Close())
		})
	}
}

// readSome reads and checks the batches from a random offset on. Every batch has two offsets; its
// maximum timestamp is its base offset + 1000.
func readSome(s *Segment, random *rand.Rand) error {
	next := s.NextOffset()
	if next == 0 {
		return nil
	}
	offset := random.Int64N(next)
	position, err := s.Position(offset)
	if err != nil {
		return err
	}
	want := offset / 2 * 2 // base offset of the next batch
	err = s.Scan(position, func(place int64, b record.Batch) error {
		if b.BaseOffset() != want || b.LastOffset() != want+1 {
			return fmt.Errorf("batch at position %d has offsets %d to %d, want %d to %d", place,
				b.BaseOffset(), b.LastOffset(), want, want+1)
		}
		if want += 2; want > offset+20 {
			return errStop
		}
		return b.CheckCRC()
	})
	if err != nil && !errors.Is(err, errStop) {
		return err
	}
	if want < min(next, offset+20) {
		return fmt.Errorf("read offsets %d to %d, the next offset is %d", offset, want, next)
	}
	found, ok, err := s.PositionForTimestamp(1000 + offset/2*2)
	if err == nil && (!ok || found != position) {
		err = fmt.Errorf("lookup by the timestamp of offset %d: position %d, %v; want %d", offset,
			found, ok, position)
	}
	return err
}
