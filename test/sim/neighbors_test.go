package sim

import (
	"context"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
	"heartwood.dev/heartwood/internal/placement"
)

// neighborWriter is the node id of a broker that changes other partitions in the same sets.
const neighborWriter int32 = -3

// changeNeighbors changes one partition in each set that the cluster does not serve. So the writes
// of brokers and operators conflict although their own partitions have not changed. checkEntry
// verifies that none of these changes is lost.
func (w *world) changeNeighbors() {
	api := newAPIClient(w, neighborWriter, func() bool { return w.ctx.Err() != nil })
	writer := api.writer()
	for i := 0; sleep(w.ctx, time.Duration(api.intN(1500))*time.Millisecond) == nil; i++ {
		if w.isHealed() {
			return
		}
		key := partitionset.Key{Topic: "neighbor", Index: int32(i) % w.profile.sets}
		set := v1alpha1.PartitionSetName("sim", partitionset.Number(key, w.profile.sets))
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		_ = writer.ChangeStatus(ctx, set, func(s *partitionset.Set) error {
			state := partitionset.State{Partition: placement.Partition{Replicas: []int32{9},
				ReplicaIncarnations: map[int32]string{9: "i"}, Leader: placement.NoLeader}}
			if entry, _ := s.Get(key); entry.State != nil {
				state = *entry.State
			}
			state.LeaderEpoch++
			s.PutState(key, state)
			return nil
		})
		cancel()
	}
}
