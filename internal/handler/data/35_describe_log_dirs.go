package data

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeLogDirs (key 35), versions 1-5 (KIP-113): returns the sizes of this broker's logs.
//
//	2  flexible
//	3  top-level error
//	4  size of the volume (KIP-827)
//	5  whether the directory is cordoned, which means that it gets no new logs (KIP-1066)
//
// A broker has only one data directory, so logs never move between directories.

// DescribeLogDirsShape describes the fields of the request (api.Shape).
var DescribeLogDirsShape = api.Shape{api.Array(api.Text(), api.PlainArray(api.Fixed(4)))}

// DescribeLogDirs returns the sizes of this broker's open logs. If the request's list of topics is
// null, it describes all logs.
func (h *Handler) DescribeLogDirs(_ context.Context, raw *wire.Request,
	req *kmsg.DescribeLogDirsRequest) wire.Reply {
	response := kmsg.NewPtrDescribeLogDirsResponse()
	response.Version = req.Version
	result := h.Outcome()
	if err := h.Authorize(raw, api.DescribeCluster, api.ClusterName); err != nil {
		response.ErrorCode = result.Code(err)
		return api.Reply(response, result)
	}
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir, dir.TotalBytes, dir.UsableBytes = h.DataDir, -1, -1
	if h.Volume != nil {
		dir.TotalBytes, dir.UsableBytes = h.Volume()
	}
	requested := map[replica.PartitionID]bool{}
	for _, topic := range req.Topics {
		for _, index := range topic.Partitions {
			requested[api.PartitionRef(topic.Topic, index)] = true
		}
	}
	for _, state := range h.Replicas.States() {
		if state.Log == nil || req.Topics != nil && !requested[state.ID] {
			continue
		}
		index := slices.IndexFunc(dir.Topics,
			func(t kmsg.DescribeLogDirsResponseDirTopic) bool { return t.Topic == state.ID.Topic })
		if index < 0 {
			topic := kmsg.NewDescribeLogDirsResponseDirTopic()
			topic.Topic, index = state.ID.Topic, len(dir.Topics)
			dir.Topics = append(dir.Topics, topic)
		}
		part := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		part.Partition, part.Size = state.ID.Index, state.Log.Stats().SizeBytes
		part.OffsetLag = max(0, state.Log.HighWatermark()-state.Log.LogEnd())
		dir.Topics[index].Partitions = append(dir.Topics[index].Partitions, part)
	}
	response.Dirs = append(response.Dirs, dir)
	return api.Reply(response, result)
}
