package handler

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// AlterReplicaLogDirs (key 34), versions 1-2 (KIP-113): moves replicas of this broker to another of
// its data directories. A broker has only one data directory: a replica that is to move to it is
// there already, and any other directory gets LOG_DIR_NOT_FOUND, as in Kafka.
//
//	2  flexible

// alterLogDirsShape describes the fields of the request (shape.go).
var alterLogDirsShape = shape{array(text(), array(text(), plainArray(fixed(4))))}

func (h *Handler) alterReplicaLogDirs(_ context.Context, raw *wire.Request,
	req *kmsg.AlterReplicaLogDirsRequest) wire.Reply {
	response, result := kmsg.NewPtrAlterReplicaLogDirsResponse(), h.outcome()
	response.Version = req.Version
	denied := h.authorize(raw, alterCluster, clusterName)
	held := map[replica.PartitionID]bool{}
	for _, state := range h.opts.Replicas.States() {
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
					err = h.checkLogDir(dir.Dir, held[partitionRef(requested.Topic, index)])
				}
				part := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				part.Partition, part.ErrorCode = index, result.code(err)
				topic.Partitions = append(topic.Partitions, part)
			}
			response.Topics = append(response.Topics, topic)
		}
	}
	return reply(response, result)
}

// checkLogDir returns nil if a replica is in the directory. Parameter held reports whether this
// broker has the replica at all.
func (h *Handler) checkLogDir(dir string, held bool) error {
	if filepath.Clean(dir) != filepath.Clean(h.opts.DataDir) {
		return fmt.Errorf("%w: %q", errLogDirNotFound, dir)
	}
	if !held {
		return errReplicaNotAvailable
	}
	return nil
}
