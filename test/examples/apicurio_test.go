//go:build examples

package examples

import "testing"

// TestRegistryIsRebuiltFromTheCleanedJournal checks that the registry has replayed its journal, and
// that the journal has remained.
func TestRegistryIsRebuiltFromTheCleanedJournal(t *testing.T) {
	e := run(t, "apicurio")
	e.expectSteps("after the restart: the state is the same",
		"after kill -9: the state is the same",
		"after the clean: the state is the same",
		"after the replay: the state is the same")
	// The example makes nine changes: six artifacts, two versions, one deletion. Each must remain.
	changes := 0
	for _, r := range e.read("kafkasql-journal") {
		if r.Value != nil {
			changes++
		}
	}
	if changes != 9 {
		t.Errorf("the journal contains %d changes, want 9", changes)
	}
}
