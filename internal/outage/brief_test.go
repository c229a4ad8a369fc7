package outage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestBriefBoundsAndSortsFaults checks that Brief sorts joined errors, removes duplicates, and
// shows five of them. An error whose text contains more than its parts' texts is not split.
func TestBriefBoundsAndSortsFaults(t *testing.T) {
	both := fmt.Errorf("%w: %w", errors.New("disk"), errors.New("full"))
	if got := Brief(errors.Join(nil, both)); got != "disk: full" {
		t.Error(got)
	}
	var faults []error
	for i := range 300 {
		faults = append(faults, fmt.Errorf("partition %03d", i))
	}
	want := Brief(errors.Join(errors.Join(faults[:100]...), errors.Join(faults[100:]...),
		faults[7]))
	slices.Reverse(faults)
	if got := Brief(errors.Join(faults...)); got != want ||
		!strings.HasPrefix(got, "partition 000\n") || !strings.HasSuffix(got, "\nand 295 more") {
		t.Errorf("Brief returned %q, want %q", got, want)
	}
}
