package groups

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/wire"
)

// ListGroups (key 16), versions 0-5: lists the groups that this broker coordinates.
//
//	3  flexible
//	4  by state (KIP-518)
//	5  by type (KIP-848)

// ListGroupsShape describes the fields of the request (api.Shape).
var ListGroupsShape = api.Shape{api.PlainArray(api.Text()).From(4),
	api.PlainArray(api.Text()).From(5)}

func groupType(listing group.Listing) string {
	if listing.Consumer {
		return "consumer"
	}
	return "classic"
}

// ListGroups handles a ListGroups request (key 16).
func (h *Handler) ListGroups(ctx context.Context, raw *wire.Request,
	req *kmsg.ListGroupsRequest) wire.Reply {
	response := kmsg.NewPtrListGroupsResponse()
	response.Version = req.Version
	result := h.Outcome()
	all, err := h.Groups.List(ctx)
	response.ErrorCode = result.Code(err)
	listsAll := h.May(raw, api.DescribeCluster, api.ClusterName)
	for _, one := range all {
		kind := groupType(one)
		if !matches(req.StatesFilter, one.Phase) || !matches(req.TypesFilter, kind) {
			continue
		}
		if !listsAll && !h.May(raw, api.DescribeGroup, one.ID) {
			continue
		}
		listed := kmsg.NewListGroupsResponseGroup()
		listed.Group, listed.ProtocolType, listed.GroupState, listed.GroupType = one.ID,
			one.ProtocolType, one.Phase, kind
		response.Groups = append(response.Groups, listed)
	}
	return api.Reply(response, result)
}

// matches reports whether a filter contains a value, regardless of case. An empty filter matches
// every value.
func matches(filter []string, value string) bool {
	return len(filter) == 0 ||
		slices.ContainsFunc(filter,
			func(want string) bool { return strings.EqualFold(want, value) })
}
