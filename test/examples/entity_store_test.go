//go:build examples

package examples

import (
	"fmt"
	"maps"
	"testing"
)

// TestEntityStoresAgree checks the entities that three stores have written to one topic.
func TestEntityStoresAgree(t *testing.T) {
	e := run(t, "entity-store")
	for _, store := range []string{"go", "java", "python"} {
		e.expectSteps("after kill -9, "+store+": the state is the same",
			"after the clean, "+store+": the state is the same",
			"after the restore, "+store+": the state is the same")
	}
	want := map[string]string{
		"ticket-01": "written after the restart", "ticket-03": "returned",
	}
	for i := range 30 {
		if i%3 != 0 && i > 2 {
			want[fmt.Sprintf("ticket-%02d", i)] = fmt.Sprintf("version 2 of %02d", i)
		}
	}
	if got := e.latest("entities"); !maps.Equal(got, want) {
		t.Errorf("the topic contains %v, want %v", got, want)
	}
	// One tombstone may remain at the end of each of the three partitions.
	if records := e.read("entities"); len(records) > len(want)+3 {
		t.Errorf("%d records remain of %d entities", len(records), len(want))
	}
}
