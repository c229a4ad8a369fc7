package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// The APIs in this file are refused (refused.go), and their responses contain an error for each
// item in the request. Clients match the items in the response with those in the request. A client
// that finds no result for an item waits forever or reports success.

var (
	shareGroupDescribeShape   = api.Shape{api.PlainArray(api.Text()), api.Fixed(1)}
	streamsGroupDescribeShape = api.Shape{api.PlainArray(api.Text()), api.Fixed(1)}
	describeShareOffsetsShape = api.Shape{api.Array(api.Text(), api.PartitionsOfTopics)}
)

func (h *Handler) shareGroupDescribe(_ context.Context, _ *wire.Request,
	req *kmsg.ShareGroupDescribeRequest) wire.Reply {
	response, result := kmsg.NewPtrShareGroupDescribeResponse(), h.Outcome()
	response.Version = req.Version
	for _, id := range req.GroupIDs {
		group := kmsg.NewShareGroupDescribeResponseGroup()
		group.GroupID, group.ErrorCode, group.ErrorMessage = id, result.Code(errNoShareGroups),
			api.Message(errNoShareGroups)
		response.Groups = append(response.Groups, group)
	}
	return api.Reply(response, result)
}

func (h *Handler) streamsGroupDescribe(_ context.Context, _ *wire.Request,
	req *kmsg.StreamsGroupDescribeRequest) wire.Reply {
	response, result := kmsg.NewPtrStreamsGroupDescribeResponse(), h.Outcome()
	response.Version = req.Version
	for _, id := range req.Groups {
		group := kmsg.NewStreamsGroupDescribeResponseGroup()
		group.Group, group.ErrorCode, group.ErrorMessage = id, result.Code(errNoStreamsGroups),
			api.Message(errNoStreamsGroups)
		response.Groups = append(response.Groups, group)
	}
	return api.Reply(response, result)
}

func (h *Handler) describeShareOffsets(_ context.Context, _ *wire.Request,
	req *kmsg.DescribeShareGroupOffsetsRequest) wire.Reply {
	response, result := kmsg.NewPtrDescribeShareGroupOffsetsResponse(), h.Outcome()
	response.Version = req.Version
	for i := range req.Groups {
		group := kmsg.NewDescribeShareGroupOffsetsResponseGroup()
		group.GroupID, group.ErrorCode, group.ErrorMessage = req.Groups[i].GroupID,
			result.Code(errNoShareGroups), api.Message(errNoShareGroups)
		response.Groups = append(response.Groups, group)
	}
	return api.Reply(response, result)
}
