package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeClientQuotas (key 48), versions 0-1 (KIP-546): returns the quotas of LogUsers.
//
//	1  flexible
//
// Only users have quotas. A filter that requires a client id or an IP address selects nothing.

// DescribeClientQuotasShape describes the fields of the request (api.Shape).
var DescribeClientQuotasShape = api.Shape{api.Array(api.Text(), api.Fixed(1), api.Text()),
	api.Fixed(1)}

// The entity types that can have quotas in Kafka.
const (
	entityUser     = "user"
	entityClientID = "client-id"
	entityIP       = "ip"
)

// The match types of a filter component.
const (
	matchExact     = 0
	matchDefault   = 1
	matchSpecified = 2
)

// DescribeClientQuotas handles a DescribeClientQuotas request (key 48).
func (h *Handler) DescribeClientQuotas(_ context.Context, raw *wire.Request,
	req *kmsg.DescribeClientQuotasRequest) wire.Reply {
	response, result := kmsg.NewPtrDescribeClientQuotasResponse(), h.Outcome()
	response.Version = req.Version
	err := h.Authorize(raw, api.DescribeClusterConfigs, api.ClusterName)
	if err == nil {
		err = checkQuotaFilter(req.Components)
	}
	response.ErrorCode, response.ErrorMessage = result.Code(err), api.Message(err)
	if err == nil {
		response.Entries = describedQuotas(h.Image().Security, req)
	}
	return api.Reply(response, result)
}

// checkQuotaFilter returns an error if a filter is invalid, with the same code and text as Kafka.
func checkQuotaFilter(components []kmsg.DescribeClientQuotasRequestComponent) error {
	seen := map[string]bool{}
	for i := range components {
		c := &components[i]
		switch {
		case c.EntityType == "":
			return api.Invalid("Invalid empty entity type.")
		case seen[c.EntityType]:
			return api.Invalid("Entity type " + c.EntityType +
				" cannot appear more than once in the filter.")
		case c.EntityType != entityUser && c.EntityType != entityClientID && c.EntityType != entityIP:
			return api.Unsupported("Unsupported entity type " + c.EntityType)
		case c.MatchType < matchExact || c.MatchType > matchSpecified:
			return api.Invalid(fmt.Sprintf("Unknown match type %d", c.MatchType))
		case (c.MatchType == matchExact) != (c.Match != nil):
			return api.Invalid(fmt.Sprintf("match type %d with a wrong match string", c.MatchType))
		}
		seen[c.EntityType] = true
	}
	if seen[entityIP] && (seen[entityUser] || seen[entityClientID]) {
		return api.Invalid("Invalid entity filter component combination. IP filter component " +
			"should not be used with user or clientId filter component.")
	}
	return nil
}

// describedQuotas returns the entities that a filter selects, sorted by name. It never returns nil,
// because nil in a response means that the request failed.
func describedQuotas(security *metadata.Security,
	req *kmsg.DescribeClientQuotasRequest) []kmsg.DescribeClientQuotasResponseEntry {
	all := []kmsg.DescribeClientQuotasResponseEntry{}
	if security == nil || req.Strict && len(req.Components) != 1 {
		return all
	}
	for _, user := range slices.Sorted(maps.Keys(security.Quotas)) {
		if !slices.ContainsFunc(req.Components,
			func(c kmsg.DescribeClientQuotasRequestComponent) bool { return !selectsUser(&c, user) }) {
			all = append(all, describedQuota(user, security.Quotas[user]))
		}
	}
	return all
}

// selectsUser reports whether a filter component selects a user. The user "*" is the default for
// all users.
func selectsUser(c *kmsg.DescribeClientQuotasRequestComponent, user string) bool {
	switch {
	case c.EntityType != entityUser:
		return false
	case c.MatchType == matchExact:
		return *c.Match == user && user != metadata.AllUsers
	case c.MatchType == matchDefault:
		return user == metadata.AllUsers
	}
	return true
}

func describedQuota(user string, quotas map[string]int64) kmsg.DescribeClientQuotasResponseEntry {
	entry := kmsg.NewDescribeClientQuotasResponseEntry()
	entity := kmsg.NewDescribeClientQuotasResponseEntryEntity()
	entity.Type = entityUser
	if user != metadata.AllUsers {
		entity.Name = &user
	}
	entry.Entity = append(entry.Entity, entity)
	for _, key := range metadata.QuotaKeys {
		if value, set := quotas[key]; set {
			described := kmsg.NewDescribeClientQuotasResponseEntryValue()
			described.Key, described.Value = key, float64(value)
			entry.Values = append(entry.Values, described)
		}
	}
	return entry
}
