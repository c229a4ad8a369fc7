package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/authz"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// DescribeAcls (key 29), CreateAcls (30) and DeleteAcls (31), versions 1-3. Without authorization,
// the response is SECURITY_DISABLED, as from a Kafka broker without an authorizer.
//
//	2  flexible
//	3  user resources (KIP-373)
//
// ACLs are part of LogUsers. CreateAcls adds an ACL to its principal's LogUser. If there is none,
// it creates a LogUser of type External. DeleteAcls removes ACLs from LogUsers.

// The shapes describe the fields of the requests (api.Shape).
var (
	DescribeACLsShape = api.Shape{api.Fixed(1), api.Text(), api.Fixed(1), api.Text(), api.Text(),
		api.Fixed(2)}
	CreateACLsShape = api.Shape{api.Array(api.Fixed(1), api.Text(), api.Fixed(1), api.Text(),
		api.Text(), api.Fixed(2))}
	DeleteACLsShape = api.Shape{api.Array(api.Fixed(1), api.Text(), api.Fixed(1), api.Text(),
		api.Text(), api.Fixed(2))}
)

// matcher returns a matcher for the current ACLs, or ErrNoAuthorizer if authorization is disabled.
func (h *Handler) matcher() (*authz.Matcher, error) {
	if m := h.Image().Security.Matcher(); m != nil {
		return m, nil
	}
	return nil, api.ErrNoAuthorizer
}

// DescribeACLs handles a DescribeAcls request.
func (h *Handler) DescribeACLs(_ context.Context, raw *wire.Request,
	req *kmsg.DescribeACLsRequest) wire.Reply {
	response, result := kmsg.NewPtrDescribeACLsResponse(), h.Outcome()
	response.Version = req.Version
	filter := authz.Filter{Type: authz.ResourceType(req.ResourceType), Name: req.ResourceName,
		Pattern: authz.PatternType(req.ResourcePatternType), Principal: req.Principal,
		Host: req.Host, Operation: authz.Operation(req.Operation),
		Permission: authz.Permission(req.PermissionType)}
	err := h.Authorize(raw, api.DescribeCluster, api.ClusterName)
	var m *authz.Matcher
	if err == nil {
		m, err = h.matcher()
	}
	if err == nil && !filter.Valid() {
		err = fmt.Errorf("%w: the filter contains unknown elements", api.ErrInvalidRequest)
	}
	response.ErrorCode, response.ErrorMessage = result.Code(err), api.Message(err)
	if err == nil {
		response.Resources = describedACLs(m.ACLs(), &filter)
	}
	return api.Reply(response, result)
}

// describedACLs groups the selected ACLs by resource, sorted by resource.
func describedACLs(acls []authz.ACL,
	filter *authz.Filter) (all []kmsg.DescribeACLsResponseResource) {
	for i := range acls {
		a := &acls[i]
		if !filter.Matches(a) {
			continue
		}
		kind, pattern := kmsg.ACLResourceType(a.Type), kmsg.ACLResourcePatternType(a.Pattern)
		if n := len(all); n == 0 || all[n-1].ResourceType != kind ||
			all[n-1].ResourceName != a.Name || all[n-1].ResourcePatternType != pattern {
			resource := kmsg.NewDescribeACLsResponseResource()
			resource.ResourceType, resource.ResourceName = kind, a.Name
			resource.ResourcePatternType = pattern
			all = append(all, resource)
		}
		described := kmsg.NewDescribeACLsResponseResourceACL()
		described.Principal, described.Host = a.Principal.String(), a.Host
		described.Operation = kmsg.ACLOperation(a.Operation)
		described.PermissionType = kmsg.ACLPermissionType(a.Permission)
		last := &all[len(all)-1]
		last.ACLs = append(last.ACLs, described)
	}
	return all
}

// CreateACLs handles a CreateAcls request.
func (h *Handler) CreateACLs(ctx context.Context, raw *wire.Request,
	req *kmsg.CreateACLsRequest) wire.Reply {
	response, result := kmsg.NewPtrCreateACLsResponse(), h.Outcome()
	response.Version = req.Version
	acls, faults := make([]authz.ACL, len(req.Creations)), make([]error, len(req.Creations))
	refused := h.aclsWritable(raw)
	for i := range req.Creations {
		if faults[i] = refused; refused == nil {
			acls[i], faults[i] = creation(&req.Creations[i])
		}
	}
	h.changeUsers(ctx, raw, acls, faults, func(name string, listed []authz.ACL) metadata.UserChange {
		return metadata.UserChange{Name: name, Add: listed}
	})
	for i := range req.Creations {
		created := kmsg.NewCreateACLsResponseResult()
		created.ErrorCode, created.ErrorMessage = result.Code(faults[i]), api.Message(faults[i])
		response.Results = append(response.Results, created)
	}
	return api.Reply(response, result)
}

// aclsWritable returns nil if the client may change ACLs.
func (h *Handler) aclsWritable(raw *wire.Request) error {
	if err := h.Authorize(raw, api.AlterCluster, api.ClusterName); err != nil {
		return err
	}
	if _, err := h.matcher(); err != nil {
		return err
	}
	return api.Writable(h.Image())
}

func creation(c *kmsg.CreateACLsRequestCreation) (authz.ACL, error) {
	principal, err := authz.ParsePrincipal(c.Principal)
	if err != nil {
		return authz.ACL{}, fmt.Errorf("%w: %w", api.ErrInvalidRequest, err)
	}
	a := authz.ACL{Principal: principal, Host: c.Host, Operation: authz.Operation(c.Operation),
		Permission: authz.Permission(c.PermissionType), Type: authz.ResourceType(c.ResourceType),
		Pattern: authz.PatternType(c.ResourcePatternType), Name: c.ResourceName}
	if principal.Type != metadata.PrincipalUser || a.Type == authz.ResourceToken {
		return a, fmt.Errorf("%w: only principals of type %s have ACLs, and delegation tokens have none",
			api.ErrInvalidRequest, metadata.PrincipalUser)
	}
	if err := a.Check(); err != nil {
		return a, fmt.Errorf("%w: %w", api.ErrInvalidRequest, err)
	}
	return a, nil
}

// changeUsers changes the ACLs of each principal that has an ACL without a fault. If a principal's
// LogUser cannot be changed, all of the principal's ACLs get the error as their fault. It returns
// when this broker's metadata image contains the changes.
func (h *Handler) changeUsers(ctx context.Context, raw *wire.Request, acls []authz.ACL,
	faults []error, change func(name string, listed []authz.ACL) metadata.UserChange) {
	byName := map[string][]int{}
	for i := range acls {
		if faults[i] == nil {
			byName[acls[i].Principal.Name] = append(byName[acls[i].Principal.Name], i)
		}
	}
	for name, indexes := range byName {
		listed := make([]authz.ACL, 0, len(indexes))
		for _, i := range indexes {
			listed = append(listed, acls[i])
		}
		changed := change(name, listed)
		err := h.Users.ChangeUser(ctx, changed)
		if err == nil {
			h.AuditWrite(raw, "user", name, "addedACLs", len(changed.Add), "removedACLs",
				len(changed.Remove))
			h.awaitImage(ctx, func(img *metadata.Image) bool { return contains(img, &changed) })
		}
		for _, i := range indexes {
			faults[i] = err
		}
	}
}

// contains reports whether a metadata image contains a change of ACLs.
func contains(img *metadata.Image, change *metadata.UserChange) bool {
	acls := img.Security.Matcher().ACLs()
	for i := range change.Add {
		if _, found := slices.BinarySearchFunc(acls, change.Add[i], authz.Compare); !found {
			return false
		}
	}
	for i := range change.Remove {
		if _, found := slices.BinarySearchFunc(acls, change.Remove[i], authz.Compare); found {
			return false
		}
	}
	return true
}

// DeleteACLs handles a DeleteAcls request.
func (h *Handler) DeleteACLs(ctx context.Context, raw *wire.Request,
	req *kmsg.DeleteACLsRequest) wire.Reply {
	response, result := kmsg.NewPtrDeleteACLsResponse(), h.Outcome()
	response.Version = req.Version
	refused := h.aclsWritable(raw)
	m, _ := h.matcher()
	for i := range req.Filters {
		deleted := kmsg.NewDeleteACLsResponseResult()
		f := &req.Filters[i]
		filter := authz.Filter{Type: authz.ResourceType(f.ResourceType), Name: f.ResourceName,
			Pattern: authz.PatternType(f.ResourcePatternType), Principal: f.Principal, Host: f.Host,
			Operation:  authz.Operation(f.Operation),
			Permission: authz.Permission(f.PermissionType)}
		err := refused
		if err == nil && !filter.Valid() {
			err = fmt.Errorf("%w: the filter contains unknown elements", api.ErrInvalidRequest)
		}
		deleted.ErrorCode, deleted.ErrorMessage = result.Code(err), api.Message(err)
		if err == nil {
			deleted.MatchingACLs = h.deleteMatching(ctx, raw, m.ACLs(), &filter, &result)
		}
		response.Results = append(response.Results, deleted)
	}
	return api.Reply(response, result)
}

// deleteMatching deletes the ACLs that a filter selects, and returns the result for the response.
func (h *Handler) deleteMatching(ctx context.Context, raw *wire.Request, acls []authz.ACL,
	filter *authz.Filter, result *api.Outcome) (all []kmsg.DeleteACLsResponseResultMatchingACL) {
	var selected []authz.ACL
	for i := range acls {
		if filter.Matches(&acls[i]) {
			selected = append(selected, acls[i])
		}
	}
	faults := make([]error, len(selected))
	h.changeUsers(ctx, raw, selected, faults,
		func(name string, listed []authz.ACL) metadata.UserChange {
			return metadata.UserChange{Name: name, Remove: listed}
		})
	for i := range selected {
		a := &selected[i]
		matching := kmsg.NewDeleteACLsResponseResultMatchingACL()
		matching.ErrorCode, matching.ErrorMessage = result.Code(faults[i]), api.Message(faults[i])
		matching.ResourceType, matching.ResourceName = kmsg.ACLResourceType(a.Type), a.Name
		matching.ResourcePatternType = kmsg.ACLResourcePatternType(a.Pattern)
		matching.Principal, matching.Host = a.Principal.String(), a.Host
		matching.Operation = kmsg.ACLOperation(a.Operation)
		matching.PermissionType = kmsg.ACLPermissionType(a.Permission)
		all = append(all, matching)
	}
	return all
}
