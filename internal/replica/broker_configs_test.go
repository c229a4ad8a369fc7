package replica

import (
	"strconv"
	"testing"

	"heartwood.dev/heartwood/internal/brokerconfig"
)

// TestDescribedDefaultsAreInEffect checks that the defaults that admin clients read for a broker's
// settings are the values that the broker uses.
func TestDescribedDefaultsAreInEffect(t *testing.T) {
	for name, value := range map[string]int64{
		"replica.fetch.max.bytes":          followerPartitionBytesMax,
		"replica.fetch.response.max.bytes": followerBytesMax,
		"replica.fetch.wait.max.ms":        followerFetchWait.Milliseconds(),
		"replica.lag.time.max.ms":          lagMaxDefault.Milliseconds(),
	} {
		if got := brokerconfig.Find(name).Default; got != strconv.FormatInt(value, 10) {
			t.Errorf("%s: got %s, want %d", name, got, value)
		}
	}
}
