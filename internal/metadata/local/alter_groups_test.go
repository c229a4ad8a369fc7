package local

import (
	"errors"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestConfigsOfAGroupAreStored checks that, without a manifest, the first change creates a
// LogCluster, which is kept as long as a group has settings. With a manifest, the change must be
// rejected.
func TestConfigsOfAGroupAreStored(t *testing.T) {
	s := openAltered(t, 1)
	startAll(t, s, 1)
	alter := func(validate bool, op metadata.PropertyOp, value string) error {
		return s.AlterCluster(t.Context(), metadata.ClusterChange{Group: "g", Validate: validate,
			Properties: []metadata.PropertyChange{
				{Name: "consumer.session.timeout.ms", Op: op, Value: value}}})
	}
	if err := alter(true, metadata.PropertySet, "50000"); err != nil ||
		len(s.Image().GroupOverrides) != 0 {
		t.Errorf("with Validate: got error %v, overrides %v", err, s.Image().GroupOverrides)
	}
	if err := alter(false, metadata.PropertySet, "44999"); !errors.Is(err,
		metadata.ErrInvalidSettings) {
		t.Errorf("below the minimum: got error %v", err)
	}
	if err := alter(false, metadata.PropertySet, "50000"); err != nil {
		t.Fatal(err)
	}
	want := metadata.GroupOverride{ConsumerSession: 50 * time.Second}
	if got := s.Image().GroupOverrides["g"]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if err := s.Sync(nil, 1, nil); err != nil {
		t.Fatal(err)
	}
	if got := s.Image().GroupOverrides["g"]; got != want {
		t.Errorf("after Sync: got %+v, want %+v", got, want)
	}
	if err := alter(false, metadata.PropertyDelete, ""); err != nil ||
		len(s.Image().GroupOverrides) != 0 || s.changing.document.Cluster != nil {
		t.Errorf("after the deletion: error %v, LogCluster %+v", err, s.changing.document.Cluster)
	}
}
