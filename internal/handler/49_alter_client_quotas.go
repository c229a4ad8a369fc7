package handler

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// AlterClientQuotas (key 49), versions 0-1 (KIP-546): changes the quotas of LogUsers.
//
//	1  flexible
//
// A user without a LogUser gets one of type External. The default of all users is the LogUser *.
// Quotas of client ids and of IP addresses are refused. Values are whole numbers; Kafka also
// accepts fractions of percents and of partitions.

// alterClientQuotasShape describes the fields of the request (shape.go).
var alterClientQuotasShape = shape{array(array(text(), text()), array(text(), fixed(9))), fixed(1)}

func (h *Handler) alterClientQuotas(ctx context.Context, raw *wire.Request,
	req *kmsg.AlterClientQuotasRequest) wire.Reply {
	response, result := kmsg.NewPtrAlterClientQuotasResponse(), h.outcome()
	response.Version = req.Version
	refused := h.authorize(raw, alterClusterConfigs, clusterName)
	if refused == nil {
		refused = writable(h.opts.Image())
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
			err = invalid("Ignoring duplicate entity " + change.Name)
		}
		changed[change.Name] = true
		if err == nil && !req.ValidateOnly {
			err = h.alterQuotas(ctx, raw, change)
		}
		entry := kmsg.NewAlterClientQuotasResponseEntry()
		entry.ErrorCode, entry.ErrorMessage = result.code(err), message(err)
		for _, of := range requested.Entity {
			entity := kmsg.NewAlterClientQuotasResponseEntryEntity()
			entity.Type, entity.Name = of.Type, of.Name
			entry.Entity = append(entry.Entity, entity)
		}
		response.Entries = append(response.Entries, entry)
	}
	return reply(response, result)
}

// quotaChange returns the change of one entity, with the checks and texts of Kafka.
func quotaChange(requested *kmsg.AlterClientQuotasRequestEntry) (change metadata.UserChange,
	err error) {
	if change.Name, err = quotaEntity(requested.Entity); err != nil {
		return change, err
	}
	change.Quotas = map[string]*int64{}
	for _, op := range requested.Ops {
		if _, repeated := change.Quotas[op.Key]; repeated {
			return change, invalid("Duplicate quota key " + op.Key)
		}
		if op.Remove {
			change.Quotas[op.Key] = nil
			continue
		}
		if err := metadata.CheckQuota(op.Key, op.Value); err != nil {
			return change, invalid(err.Error())
		}
		value := int64(op.Value)
		change.Quotas[op.Key] = &value
	}
	return change, nil
}

// quotaEntity returns the name of the user of an entity; without a name it is the default of all
// users.
func quotaEntity(entity []kmsg.AlterClientQuotasRequestEntryEntity) (name string, err error) {
	if len(entity) == 0 {
		return "", invalid("Invalid empty client quota entity")
	}
	for _, part := range entity {
		switch {
		case part.Type == entityClientID, part.Type == entityIP:
			return "", invalid("quotas of client ids and of IP addresses are not supported: set a " +
				"quota of a user")
		case part.Type != entityUser:
			return "", invalid("Unhandled client quota entity type: " + part.Type)
		case part.Name != nil && *part.Name == "":
			return "", invalid("Empty user not supported")
		case part.Name != nil && *part.Name == metadata.AllUsers:
			return "", invalid("the quotas of all users are those of the default user, which has no " +
				"name")
		case name != "":
			return "", invalid("Invalid client quota entity, duplicate entity entry user")
		case part.Name == nil:
			name = metadata.AllUsers
		default:
			name = *part.Name
		}
	}
	return name, nil
}

// alterQuotas changes the LogUser, and returns once this broker's image contains the change.
func (h *Handler) alterQuotas(ctx context.Context, raw *wire.Request,
	change metadata.UserChange) error {
	if err := h.opts.Users.ChangeUser(ctx, change); err != nil {
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
	h.auditWrite(raw, args...)
	h.awaitImage(ctx, func(img *metadata.Image) bool { return hasQuotas(img.Security, &change) })
	return nil
}

// hasQuotas reports whether the users have the quotas of a change.
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
