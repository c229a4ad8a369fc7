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

// Concurrent readers see only complete and correct batches, and all batches that existed when they
// started. Run it with -race.
func TestConcurrentReadsAppendsAndSyncs(t *testing.T) {
	for name, fsys := range map[string]vfs.FS{"OS": vfs.OS{}, "Mem": vfs.NewMem()} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, fsys.MkdirAll(dir))
			s, err := Create(fsys, dir, 0, "", Config{IndexIntervalBytes: 200})
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
					if err := s.Sync(); err != nil {
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

// readSome reads from a random offset on. Batches have two offsets, and timestamps 1001 above the
// first of them.
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
	due := offset / 2 * 2
	err = s.Scan(position, func(at int64, b record.Batch) error {
		if b.BaseOffset() != due || b.LastOffset() != due+1 {
			return fmt.Errorf("offsets %d to %d at %d, want %d", b.BaseOffset(), b.LastOffset(), at,
				due)
		}
		if due += 2; due > offset+20 {
			return errStop
		}
		return b.CheckCRC()
	})
	if err != nil && !errors.Is(err, errStop) {
		return err
	}
	if due < min(next, offset+20) {
		return fmt.Errorf("read offsets %d to %d, the next offset is %d", offset, due, next)
	}
	found, ok, err := s.PositionForTimestamp(1000 + offset/2*2)
	if err == nil && (!ok || found != position) {
		err = fmt.Errorf("timestamp of offset %d at %d, %v; want %d", offset, found, ok, position)
	}
	return err
}
