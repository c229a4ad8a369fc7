package broker

import (
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

func TestConnectionsLeaveDescriptorsToPartitions(t *testing.T) {
	for soft, want := range map[uint64]int{
		0: connectionsDefault, 1: 1, 1024: 512, 20_000: 10_000, 1 << 63: connectionsDefault,
	} {
		if got := connectionsMax(vfs.OpenFilesLimit{Soft: soft}); got != want {
			t.Errorf("limit of %d descriptors: got %d connections, want %d", soft, got, want)
		}
	}
}
