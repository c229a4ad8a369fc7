package cleaner

import (
	"errors"
	"maps"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// Some call of a clean by hand fails, whichever: it says so, the log is legal and complete, and the
// next run does the work.
func TestOfflineFaultAnywhere(t *testing.T) { // I37, I38: EIO, a full disk, short writes
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, fault := range passFaults {
		step := fault.step
		if *passAll {
			step = 1
		}
		for skip := random.IntN(step); ; skip += step {
			mem, latest := abandoned(t, 120, 20)
			disk := vfs.NewFault(mem)
			rule := fault.rule
			rule.Skip = skip
			disk.Inject(rule)
			_, err := byHand(t, disk,
				OfflineOptions{TombstoneRetention: time.Hour, SegmentBytes: 2000})
			hit := disk.Failed() > 0
			disk.Clear()
			if err == nil && errors.Is(fault.rule.Err, syscall.ENOSPC) && fault.rule.Times == 0 &&
				hit {
				t.Errorf("%s at call %d is not told", fault.name, skip)
			}
			if got, _ := latestIn(t, mem); !maps.Equal(got, latest) {
				t.Fatalf("%s at call %d (seed %d), %v: latest %v, want %v", fault.name, skip, seed,
					err, got, latest)
			}
			if _, err := byHand(t, mem, OfflineOptions{SegmentBytes: 2000}); err != nil {
				t.Fatalf("%s at call %d (seed %d): the next run: %v", fault.name, skip, seed, err)
			}
			if got, records := latestIn(t, mem); !maps.Equal(got, latest) || records > 40 {
				t.Fatalf("%s at call %d (seed %d): %d records in the end, latest %v, want %v",
					fault.name, skip, seed, records, got, latest)
			}
			if !hit {
				break
			}
		}
	}
}

// fullDisk says that nothing is free.
type fullDisk struct{ vfs.FS }

func (fullDisk) Free(string) (uint64, error) { return 0, nil }

// F16: a clean that begins on a full disk says so before it writes a segment.
func TestF16OfflineOnAFullDiskSaysSo(t *testing.T) {
	mem, latest := abandoned(t, 400, 20)
	_, err := byHand(t, fullDisk{mem}, OfflineOptions{})
	if !errors.Is(err, clean.ErrNoSpace) {
		t.Errorf("%v", err)
	}
	if got, records := latestIn(t, mem); !maps.Equal(got, latest) || records != 400 {
		t.Errorf("%d records, latest %v, want %v", records, got, latest)
	}
}
