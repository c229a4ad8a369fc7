package logstore

import (
	"strconv"
	"testing"

	"heartwood.dev/heartwood/internal/brokerconfig"
)

// TestDescribedDefaultsAreInEffect checks that the defaults in the broker settings that admin
// clients read are in effect.
func TestDescribedDefaultsAreInEffect(t *testing.T) {
	flush := flushIntervalDefault.Milliseconds()
	for name, value := range map[string]int64{
		"log.flush.scheduler.interval.ms":               flush,
		"log.flush.offset.checkpoint.interval.ms":       flush,
		"log.flush.start.offset.checkpoint.interval.ms": flush,
		"log.retention.check.interval.ms":               retentionIntervalDefault.Milliseconds(),
	} {
		if got := brokerconfig.Find(name).Default; got != strconv.FormatInt(value, 10) {
			t.Errorf("%s: got %s, want %d", name, got, value)
		}
	}
}
