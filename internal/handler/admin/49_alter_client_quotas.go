package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// AlterClientQuotas (key 49), versions 0-1 (KIP-546): changes the quotas of LogUsers.
//
//	1  flexible
//
// If a user has no LogUser, the request creates one of type External. The default for all users is
// the LogUser "*". Quotas for client ids and IP addresses are refused. Values are integers; Kafka
// also accepts fractions of a percent and of a partition.

// AlterClientQuotasShape describes the fields of the request (api.Shape).
var AlterClientQuotasShape = api.Shape{api.Array(api.Array(api.Text(), api.Text()),
	api.Array(api.Text(), api.Fixed(9))), api.Fixed(1)}

// AlterClientQuotas handles an AlterClientQuotas request (key 49).
func (h *Handler) AlterClientQuotas(ctx context.Context, raw *wire.Request,
	req *kmsg.AlterClientQuotasRequest) wire.Reply {
	response, result := kmsg.NewPtrAlterClientQuotasResponse(), h.Outcome()
	response.Version = req.Version
	refused := h.Authorize(raw, api.AlterClusterConfigs, api.ClusterName)
	if refused == nil {
		refused = api.Writable(h.Image())
	}
	changed := map[string]bool{}
	for i := range req.Entries {
		requested := &req.Entries[i]
		err := refused
		var change metadata.UserChange
		if err == nil {
			change, err = quotaChange(requested)
		}
		if err == nil && changed[change.Name] {
			err = api.Invalid("Ignoring duplicate entity " + change.Name)
		}
		changed[change.Name] = true
		if err == nil && !req.ValidateOnly {
			err = h.alterQuotas(ctx, raw, change)
		}
		entry := kmsg.NewAlterClientQuotasResponseEntry()
		entry.ErrorCode, entry.ErrorMessage = result.Code(err), api.Message(err)
		for _, component := range requested.Entity {
			entity := kmsg.NewAlterClientQuotasResponseEntryEntity()
			entity.Type, entity.Name = component.Type, component.Name
			entry.Entity = append(entry.Entity, entity)
		}
		response.Entries = append(response.Entries, entry)
	}
	return api.Reply(response, result)
}

// quotaChange returns the change for one entity. Its checks and error texts are the same as in
// Kafka.
func quotaChange(requested *kmsg.AlterClientQuotasRequestEntry) (change metadata.UserChange,
	err error) {
	if change.Name, err = quotaEntity(requested.Entity); err != nil {
		return change, err
	}
	change.Quotas = map[string]*int64{}
	for _, op := range requested.Ops {
		if _, repeated := change.Quotas[op.Key]; repeated {
			return change, api.Invalid("Duplicate quota key " + op.Key)
		}
		if op.Remove {
			change.Quotas[op.Key] = nil
			continue
		}
		if err := metadata.CheckQuota(op.Key, op.Value); err != nil {
			return change, api.Invalid(err.Error())
		}
		value := int64(op.Value)
		change.Quotas[op.Key] = &value
	}
	return change, nil
}

// quotaEntity returns the user name in an entity. An entity without a name is the default for all
// users.
func quotaEntity(entity []kmsg.AlterClientQuotasRequestEntryEntity) (name string, err error) {
	if len(entity) == 0 {
		return "", api.Invalid("Invalid empty client quota entity")
	}
	for _, part := range entity {
		switch {
		case part.Type == entityClientID, part.Type == entityIP:
			return "", api.Invalid("quotas of client ids and of IP addresses are not supported: set a " +
				"quota of a user")
		case part.Type != entityUser:
			return "", api.Invalid("Unhandled client quota entity type: " + part.Type)
		case part.Name != nil && *part.Name == "":
			return "", api.Invalid("Empty user not supported")
		case part.Name != nil && *part.Name == metadata.AllUsers:
			return "", api.Invalid("the quotas of all users are those of the default user, which has no " +
				"name")
		case name != "":
			return "", api.Invalid("Invalid client quota entity, duplicate entity entry user")
		case part.Name == nil:
			name = metadata.AllUsers
		default:
			name = *part.Name
		}
	}
	return name, nil
}

// alterQuotas changes the LogUser, and returns when this broker's metadata image contains the
// change.
func (h *Handler) alterQuotas(ctx context.Context, raw *wire.Request,
	change metadata.UserChange) error {
	if err := h.Users.ChangeUser(ctx, change); err != nil {
		return err
	}
	args := []any{"user", change.Name}
	for _, key := range metadata.QuotaKeys {
		if value, changed := change.Quotas[key]; changed && value != nil {
			args = append(args, key, *value)
		} else if changed {
			args = append(args, key, "removed")
		}
	}
	h.AuditWrite(raw, args...)
	h.awaitImage(ctx, func(img *metadata.Image) bool { return hasQuotas(img.Security, &change) })
	return nil
}

// hasQuotas reports whether the users already have the quotas that a change sets.
func hasQuotas(security *metadata.Security, change *metadata.UserChange) bool {
	var present map[string]int64
	if security != nil {
		present = security.Quotas[change.Name]
	}
	for key, want := range change.Quotas {
		if value, set := present[key]; set != (want != nil) || set && value != *want {
			return false
		}
	}
	return true
}
