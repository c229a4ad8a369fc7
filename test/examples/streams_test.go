//go:build examples

package examples

import (
	"encoding/binary"
	"fmt"
	"maps"
	"testing"
)

// visits is the number of visits that the example produces.
const visits = 5500

// TestChangelogContainsTheCounts checks the changelog against the visits of the example.
func TestChangelogContainsTheCounts(t *testing.T) {
	e := run(t, "streams")
	e.expectSteps("after kill -9: the state is the same",
		"after the loss of the state: the state is the same",
		"after the clean: the state is the same",
		"after 500 more visits: the state is the same")
	want := map[string]uint64{}
	for i := range visits {
		want[fmt.Sprintf("page-%d", i*i%37)]++
	}
	got := map[string]uint64{}
	for page, count := range e.latest("page-counts-counts-changelog") {
		got[page] = binary.BigEndian.Uint64([]byte(count))
	}
	if !maps.Equal(got, want) {
		t.Errorf("the changelog contains %v, want %v", got, want)
	}
}
