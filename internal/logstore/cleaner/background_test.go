package cleaner

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// sidecars returns the base offsets of the segments that have a key sidecar. It verifies each
// sidecar against its segment's data.
func (f *fixture) sidecars() (bases []int64) {
	f.t.Helper()
	content, err := f.fsys.ReadFile(logDir + "/" + keys.SaltFile)
	if err != nil {
		f.t.Fatal(err)
	}
	salt, err := keys.DecodeSalt(content)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, base := range segmentBases(f.t, f.fsys) {
		data, err := f.fsys.Open(segmentPath(base))
		if err != nil {
			f.t.Fatal(err)
		}
		size, err := data.Size()
		if err != nil {
			f.t.Fatal(err)
		}
		reader, err := keys.Open(f.fsys, logDir+"/"+segment.Name(base, keys.Extension, ""),
			keys.Expect{Identity: keys.Identity{Base: base, LogBytes: size}, SaltID: salt.ID()})
		if err != nil {
			_ = data.Close()
			continue
		}
		if err := errors.Join(reader.Verify(data), reader.Close(), data.Close()); err != nil {
			f.t.Errorf("segment %d: %v", base, err)
		}
		bases = append(bases, base)
	}
	return bases
}

func TestSidecarsAreBuiltInTheBackgroundUntilClose(t *testing.T) {
	config := compacted(func(s *topicconfig.Settings) { s.MinDirtyPercent = 100 })
	inBubble(t, config, Options{}, func(t *testing.T, f *fixture) {
		fill := func(n int) {
			for range n {
				batch := storetest.Batch{Keys: []string{fmt.Sprintf("k%d", f.log.LogEnd())},
					Value: strings.Repeat("v", 100), Timestamp: time.Now()}
				appendBatch(t, f.log, batch.Bytes(t))
			}
		}
		fill(35)
		wait(3 * time.Second)
		sealed := segmentBases(t, f.fsys)
		sealed = sealed[:len(sealed)-1]
		if got := f.sidecars(); len(sealed) == 0 || fmt.Sprint(got) != fmt.Sprint(sealed) {
			t.Errorf("segments with a sidecar %v, want %v", got, sealed)
		}
		f.cleaner.Close()
		fill(20)
		wait(5 * time.Second)
		if got := f.sidecars(); fmt.Sprint(got) != fmt.Sprint(sealed) {
			t.Errorf("segments with a sidecar after Close %v, want %v", got, sealed)
		}
	})
}
