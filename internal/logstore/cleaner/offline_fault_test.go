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

// TestOfflineFaultAtEveryCall makes each filesystem call of an offline clean fail. The clean
// returns the error, the log is valid and complete, and the next clean succeeds.
func TestOfflineFaultAtEveryCall(t *testing.T) { // I37, I38: EIO, a full disk, short writes
	seed := seed.New(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, fault := range passFaults {
		step := fault.step
		if *passAll {
			step = 1
		}
		for skip := random.IntN(step); ; skip += step {
			mem, latest := closedLog(t, 120, 20)
			disk := vfs.NewFault(mem)
			rule := fault.rule
			rule.Skip = skip
			disk.Inject(rule)
			_, err := cleanOffline(t, disk,
				OfflineOptions{TombstoneRetention: time.Hour, SegmentBytes: 2000})
			hit := disk.Failed() > 0
			disk.Clear()
			if err == nil && errors.Is(fault.rule.Err, syscall.ENOSPC) && fault.rule.Times == 0 &&
				hit {
				t.Errorf("%s at call %d is not reported", fault.name, skip)
			}
			if got, _ := latestIn(t, mem); !maps.Equal(got, latest) {
				t.Fatalf("%s at call %d (seed %d), %v: latest %v, want %v", fault.name, skip, seed,
					err, got, latest)
			}
			if _, err := cleanOffline(t, mem, OfflineOptions{SegmentBytes: 2000}); err != nil {
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

// fullDisk is a filesystem that reports no free space.
type fullDisk struct{ vfs.FS }

func (fullDisk) Free(string) (uint64, error) { return 0, nil }

// TestF16OfflineReportsFullDisk checks that a clean on a full disk fails before it writes a segment
// (F16).
func TestF16OfflineReportsFullDisk(t *testing.T) {
	mem, latest := closedLog(t, 400, 20)
	_, err := cleanOffline(t, fullDisk{mem}, OfflineOptions{})
	if !errors.Is(err, clean.ErrNoSpace) {
		t.Errorf("%v", err)
	}
	if got, records := latestIn(t, mem); !maps.Equal(got, latest) || records != 400 {
		t.Errorf("%d records, latest %v, want %v", records, got, latest)
	}
}
