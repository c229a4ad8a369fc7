package handler

import (
	"testing"

	"heartwood.dev/heartwood/internal/replica"
)

// Whichever of five partitions are refused, the results come in the order of the request.
func TestRefusedPartitionsKeepTheirPlaces(t *testing.T) {
	const count = 5
	for chosen := range 1 << count {
		var fetched []replica.FetchResult
		var refused []refusedPartition
		for at := range count {
			result := replica.FetchResult{ID: replica.PartitionID{Topic: "t", Index: int32(at)}}
			if chosen&(1<<at) != 0 {
				refused = append(refused, refusedPartition{at, result})
			} else {
				fetched = append(fetched, result)
			}
		}
		all := withRefused(fetched, refused)
		if len(all) != count {
			t.Fatalf("refused %05b: %d results", chosen, len(all))
		}
		for at, result := range all {
			if int(result.ID.Index) != at {
				t.Errorf("refused %05b: partition %d stands at %d", chosen, result.ID.Index, at)
			}
		}
	}
}
