package summary

import (
	"testing"

	"heartwood.dev/heartwood/api/report"
)

// TestRecordsAreSumsOverAllLeaders checks that a sum is absent unless every leader has reported its
// value, because a partial sum would be mistaken for the total.
func TestRecordsAreSumsOverAllLeaders(t *testing.T) {
	counted := func(records, keys int64, exact bool) *report.Compaction {
		c := &report.Compaction{RecordsExact: exact}
		if records >= 0 {
			c.Records = &records
		}
		if keys >= 0 {
			c.DistinctKeys = &keys
		}
		return c
	}
	const absent = -1
	for name, test := range map[string]struct {
		leaders       []*report.Compaction
		records, keys int64
		exact         bool
	}{
		"all": {[]*report.Compaction{counted(10, 4, true), counted(5, 5, true)},
			15, 9, true},
		"one is estimated": {[]*report.Compaction{counted(10, 4, true), counted(5, 5, false)},
			15, 9, false},
		"no pass": {[]*report.Compaction{counted(10, 4, true), counted(5, absent, true)}, 15, absent,
			true},
		"an older broker": {[]*report.Compaction{counted(10, 4, true), counted(absent, absent, false)},
			absent, absent, false},
		"one is missing": {[]*report.Compaction{counted(10, 4, true)}, absent, absent, false},
	} {
		got := Of(Metadata{Partitions: 2, Replicas: 2, Compacted: true}, leadersOf(test.leaders...),
			Polled{})
		value := func(n *int64) int64 {
			if n == nil {
				return absent
			}
			return *n
		}
		if value(got.Records) != test.records || value(got.DistinctKeys) != test.keys ||
			got.RecordsExact != test.exact {
			t.Errorf("%s: got %d records, exact %t, %d keys", name, value(got.Records),
				got.RecordsExact, value(got.DistinctKeys))
		}
	}
}
