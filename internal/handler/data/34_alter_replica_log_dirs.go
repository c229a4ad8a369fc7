package data

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// AlterReplicaLogDirs (key 34), versions 1-2 (KIP-113): moves replicas of this broker to another of
// its data directories. A broker has only one data directory. A move to this directory has no
// effect. For any other directory, the response is LOG_DIR_NOT_FOUND, as in Kafka.
//
//	2  flexible

// AlterLogDirsShape describes the fields of the request (api.Shape).
var AlterLogDirsShape = api.Shape{api.Array(api.Text(), api.Array(api.Text(),
	api.PlainArray(api.Fixed(4))))}

// AlterReplicaLogDirs handles an AlterReplicaLogDirs request (key 34).
func (h *Handler) AlterReplicaLogDirs(_ context.Context, raw *wire.Request,
	req *kmsg.AlterReplicaLogDirsRequest) wire.Reply {
	response, result := kmsg.NewPtrAlterReplicaLogDirsResponse(), h.Outcome()
	response.Version = req.Version
	denied := h.Authorize(raw, api.AlterCluster, api.ClusterName)
	held := map[replica.PartitionID]bool{}
	for _, state := range h.Replicas.States() {
		held[state.ID] = state.Log != nil
	}
	for i := range req.Dirs {
		dir := &req.Dirs[i]
		for _, requested := range dir.Topics {
			topic := kmsg.NewAlterReplicaLogDirsResponseTopic()
			topic.Topic = requested.Topic
			for _, index := range requested.Partitions {
				err := denied
				if err == nil {
					err = h.checkLogDir(dir.Dir, held[api.PartitionRef(requested.Topic, index)])
				}
				part := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				part.Partition, part.ErrorCode = index, result.Code(err)
				topic.Partitions = append(topic.Partitions, part)
			}
			response.Topics = append(response.Topics, topic)
		}
	}
	return api.Reply(response, result)
}

// checkLogDir returns nil if dir is the directory of a replica. held reports whether this broker
// has the replica.
func (h *Handler) checkLogDir(dir string, held bool) error {
	if filepath.Clean(dir) != filepath.Clean(h.DataDir) {
		return fmt.Errorf("%w: %q", api.ErrLogDirNotFound, dir)
	}
	if !held {
		return api.ErrReplicaNotAvailable
	}
	return nil
}
