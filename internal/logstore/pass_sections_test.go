package logstore

import (
	"fmt"
	"math"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestSectionsKeepTheirRatioDuringAPass checks that while a pass replaces segments, the log keeps
// the dirty ratio that it had at the start of the pass. The pass merges the segment that contains
// the first dirty offset with the clean segments before it. Otherwise the merged segment would
// count as wholly dirty until the pass ends.
func TestSectionsKeepTheirRatioDuringAPass(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, keyedSettings(nil))
	c, now := log.Compaction(), epoch0.Add(time.Hour)
	for round := range 3 {
		for range 20 {
			appendBatch(t, log, storetest.Batch{Keys: []string{"a", fmt.Sprint("b", round)},
				Value: randomText(100)}.Bytes(t))
		}
		if _, err := log.rollNow(); err != nil {
			t.Fatal(err)
		}
		store.tick(epoch0, false)
		updateSidecars(log, now)
	}
	if err := c.Progress.SetFirstDirty(log.LogEnd() / 2); err != nil {
		t.Fatal(err)
	}
	before, _ := c.Sections(now)
	if before.CleanBytes == 0 || before.DirtyBytes == 0 {
		t.Fatalf("before the pass %+v", before)
	}
	replaced := 0
	_, err := c.Pass(t.Context(), compaction.PassOptions{Settings: c.Settings(), Now: now,
		Thorough: true,
		Stage: func(step clean.Step) {
			if step.Kind != clean.StepReplace {
				return
			}
			replaced++
			s, _ := c.Sections(now)
			if math.Abs(s.DirtyRatio()-before.DirtyRatio()) > 0.01 ||
				s.CleanBytes+s.DirtyBytes != sum(sizesOf(log))-s.Blocked[compaction.BlockedActive] {
				t.Errorf("during the pass %+v, the log has %v", s, sizesOf(log))
			}
		}})
	if err != nil || replaced == 0 {
		t.Fatalf("%d groups replaced, %v", replaced, err)
	}
	if after, _ := c.Sections(now); after.DirtyBytes != 0 || after.CleanBytes == 0 {
		t.Errorf("after the pass %+v", after)
	}
}
