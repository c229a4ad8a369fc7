//go:build flips

package flips

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/record"
)

// stored is a record in a data file.
type stored struct{ key, value string }

// records returns the records of a partition in a data directory, by offset. The test fails if a
// batch is damaged.
func records(t *testing.T, dir string) map[int64]stored {
	t.Helper()
	all := map[int64]stored{}
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for len(content) > 0 {
			b, rest, err := record.Next(content)
			if err == nil {
				err = b.CheckCRC()
			}
			if err == nil && !b.Control() {
				err = b.Records(1<<30, func(r *record.Record) error {
					value := "null"
					if r.Value != nil {
						value = "=" + string(r.Value)
					}
					all[r.Offset] = stored{string(r.Key), value}
					return nil
				})
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				break
			}
			content = rest
		}
	}
	return all
}

// compare compares the replicas on the disks of the stopped brokers. Replicas of a compacted topic
// are cleaned independently: a record that only some replicas have is not the newest of its key.
func (c *cluster) compare(t *testing.T, brokers int) {
	t.Helper()
	for _, to := range c.topics {
		for partition := range 3 {
			name := fmt.Sprintf("%s-%d", to.name, partition)
			var replicas []map[int64]stored
			for broker := range brokers {
				replicas = append(replicas, records(t, filepath.Join(c.dir(t, broker), name)))
			}
			for broker := 1; broker < brokers; broker++ {
				if to.compacted {
					compareCompacted(t, fmt.Sprintf("%s on broker %d", name, broker), replicas[0],
						replicas[broker])
				} else if !maps.Equal(replicas[0], replicas[broker]) {
					t.Errorf("%s: broker %d has %d records, broker 0 has %d; they differ", name,
						broker, len(replicas[broker]), len(replicas[0]))
				}
			}
		}
	}
}

func compareCompacted(t *testing.T, name string, a, b map[int64]stored) {
	t.Helper()
	for offset, rec := range a {
		if other, found := b[offset]; found && other != rec {
			t.Errorf("%s: offset %d differs: %v and %v", name, offset, rec, other)
		}
	}
	newestA, newestB := newest(a), newest(b)
	if !maps.Equal(newestA, newestB) {
		var keys []string
		for key := range newestA {
			if newestA[key] != newestB[key] {
				keys = append(keys, key)
			}
		}
		for key := range newestB {
			if _, found := newestA[key]; !found {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		t.Errorf("%s: the newest records of these keys differ: %s", name, strings.Join(keys, " "))
	}
}

// newest returns the value of the newest record of each key that is not deleted.
func newest(records map[int64]stored) map[string]string {
	values := map[string]string{}
	for _, offset := range slices.Sorted(maps.Keys(records)) {
		values[records[offset].key] = records[offset].value
	}
	maps.DeleteFunc(values, func(_, value string) bool { return value == "null" })
	return values
}
