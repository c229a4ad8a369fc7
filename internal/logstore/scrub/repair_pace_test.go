package scrub

import (
	"context"
	"errors"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/segment"
)

// TestRepairsArePaced checks that each repair of a segment reports what it reads, and ends when its
// pace ends it, as when the scrub is turned off.
func TestRepairsArePaced(t *testing.T) {
	for name, test := range map[string]struct {
		compacted bool
		extension string // "": the records
	}{
		"records with a key sidecar": {true, ""}, "records": {false, ""},
		"index": {false, segment.IndexExtension}, "key sidecar": {true, segment.KeysExtension},
	} {
		t.Run(name, func(t *testing.T) {
			r, sealed := markerLogs(t, test.compacted)
			if test.extension == "" {
				flipIn(t, r, sealed, isData)
			}
			read, limit := 0, 0
			pace := func(_ context.Context, n int, took time.Duration) error {
				if read += n; read > limit || took < 0 {
					return ErrOff
				}
				return nil
			}
			mend := func() error {
				if test.extension != "" {
					return sealed.Repair(t.Context(), test.extension, pace)
				}
				return sealed.ReplaceRecords(t.Context(), logSource{r.logs[1]}, pace)
			}
			if err := mend(); !errors.Is(err, ErrOff) {
				t.Errorf("error %v, want ErrOff", err)
			}
			read, limit = 0, 1<<30
			if err := mend(); err != nil || read < 100 {
				t.Errorf("%d bytes were paced, error %v", read, err)
			}
		})
	}
}
