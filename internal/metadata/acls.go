package metadata

import (
	"cmp"
	"context"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/authz"
)

// ErrUnknownUser means that a user has no credential that could be changed or deleted.
var ErrUnknownUser = errors.New("unknown user")

// UserChange is a change of the ACLs and quotas of one principal of type User. Either the whole
// change is applied, or nothing.
type UserChange struct {
	Name   string // name of the principal
	Add    []authz.ACL
	Remove []authz.ACL
	// Quotas contains the changed quotas, by their Kafka names. A nil value removes the quota. The
	// values have passed CheckQuota.
	Quotas map[string]*int64
}

// Grants reports whether the change adds an ACL or sets a quota. A LogUser must then exist.
func (c *UserChange) Grants() bool {
	for _, value := range c.Quotas {
		if value != nil {
			return true
		}
	}
	return len(c.Add) > 0
}

// ScramChange sets or deletes the password of one user for one mechanism.
type ScramChange struct {
	Name      string
	Mechanism string
	Verifier  *v1alpha1.ScramVerifier // SCRAM verifier of the new password; nil deletes the password
}

// UserAdmin changes users for Kafka admin clients. It changes LogUser resources, and the Secret
// that contains the passwords set by admin clients. Each method returns when the change is stored;
// brokers apply the change with a later image. The errors wrap ErrPolicy, ErrInvalidSettings,
// ErrUnknownUser or ErrUnavailable.
type UserAdmin interface {
	// ChangeUser changes the ACLs and quotas of a principal. If the change adds something and the
	// principal has no LogUser, ChangeUser creates a LogUser of type External.
	ChangeUser(ctx context.Context, change UserChange) error
	// AlterScram sets or deletes a password. It cannot change the password of a LogUser of type Scram,
	// because the operator owns that password.
	AlterScram(ctx context.Context, change ScramChange) error
}

// These are the names of operations, types and patterns in LogUsers, with Kafka's numbers for them.
var (
	aclOperations = map[v1alpha1.ACLOperation]authz.Operation{
		v1alpha1.ACLAll: authz.OpAll, v1alpha1.ACLRead: authz.OpRead,
		v1alpha1.ACLWrite: authz.OpWrite, v1alpha1.ACLCreate: authz.OpCreate,
		v1alpha1.ACLDelete: authz.OpDelete, v1alpha1.ACLAlter: authz.OpAlter,
		v1alpha1.ACLDescribe:        authz.OpDescribe,
		v1alpha1.ACLClusterAction:   authz.OpClusterAction,
		v1alpha1.ACLDescribeConfigs: authz.OpDescribeConfigs,
		v1alpha1.ACLAlterConfigs:    authz.OpAlterConfigs,
		v1alpha1.ACLIdempotentWrite: authz.OpIdempotentWrite,
		v1alpha1.ACLCreateTokens:    authz.OpCreateTokens,
		v1alpha1.ACLDescribeTokens:  authz.OpDescribeTokens,
		v1alpha1.ACLTwoPhaseCommit:  authz.OpTwoPhaseCommit,
	}
	aclTypes = map[v1alpha1.ACLResourceType]authz.ResourceType{
		v1alpha1.ACLTopic: authz.ResourceTopic, v1alpha1.ACLGroup: authz.ResourceGroup,
		v1alpha1.ACLCluster:         authz.ResourceCluster,
		v1alpha1.ACLTransactionalID: authz.ResourceTransactionalID,
		v1alpha1.ACLUser:            authz.ResourceUser,
	}
	aclOperationNames = inverted(aclOperations)
	aclTypeNames      = inverted(aclTypes)
)

func inverted[K, V comparable](m map[K]V) map[V]K {
	inverse := make(map[V]K, len(m))
	for k, v := range m {
		inverse[v] = k
	}
	return inverse
}

// ACLsOf returns the ACLs of a LogUser, each with a single operation.
func ACLsOf(u *v1alpha1.LogUser) (acls []authz.ACL) {
	principal := authz.Principal{Type: PrincipalUser, Name: u.PrincipalName()}
	for _, rule := range u.Spec.ACLs {
		for _, operation := range rule.Operations {
			a := authz.ACL{Principal: principal, Host: cmp.Or(rule.Host, authz.Wildcard),
				Operation: aclOperations[operation], Permission: authz.Allow,
				Type: aclTypes[rule.Resource.Type], Pattern: authz.PatternLiteral,
				Name: rule.Resource.KafkaName()}
			if rule.Type == v1alpha1.ACLDeny {
				a.Permission = authz.Deny
			}
			if rule.Resource.Pattern == v1alpha1.ACLPrefix {
				a.Pattern = authz.PatternPrefix
			}
			if a.Check() == nil {
				acls = append(acls, a)
			}
		}
	}
	return acls
}

// ruleOf returns the LogUser rule for an ACL.
func ruleOf(a *authz.ACL) v1alpha1.ACL {
	rule := v1alpha1.ACL{
		Resource: v1alpha1.ACLResource{Type: aclTypeNames[a.Type], Name: a.Name,
			Pattern: v1alpha1.ACLLiteral},
		Operations: []v1alpha1.ACLOperation{aclOperationNames[a.Operation]},
		Type:       v1alpha1.ACLAllow, Host: a.Host,
	}
	if a.Permission == authz.Deny {
		rule.Type = v1alpha1.ACLDeny
	}
	if a.Pattern == authz.PatternPrefix {
		rule.Resource.Pattern = v1alpha1.ACLPrefix
	}
	return rule
}

// AlteredUser returns a copy of a LogUser with changed ACLs and quotas. If an ACL differs from an
// existing rule only in its operation, the operation is added to that rule, so that many ACLs
// become few rules. Rules that become empty are removed; other rules are unchanged.
func AlteredUser(u *v1alpha1.LogUser, change UserChange) *v1alpha1.LogUser {
	altered := u.DeepCopy()
	present := ACLsOf(u)
	for i := range change.Add {
		if !slices.Contains(present, change.Add[i]) {
			addRule(&altered.Spec.ACLs, ruleOf(&change.Add[i]))
		}
	}
	for i := range change.Remove {
		removeRule(altered, &change.Remove[i])
	}
	altered.Spec.ACLs = slices.DeleteFunc(altered.Spec.ACLs,
		func(rule v1alpha1.ACL) bool { return len(rule.Operations) == 0 })
	if len(change.Quotas) > 0 {
		alterQuotas(altered, change.Quotas)
	}
	return altered
}

func addRule(rules *[]v1alpha1.ACL, added v1alpha1.ACL) {
	for i := range *rules {
		rule := &(*rules)[i]
		if sameTarget(*rule, added) {
			rule.Operations = append(rule.Operations, added.Operations...)
			return
		}
	}
	*rules = append(*rules, added)
}

// sameTarget reports whether two rules differ at most in their operations.
func sameTarget(a, b v1alpha1.ACL) bool {
	pattern := func(r v1alpha1.ACL) v1alpha1.ACLPattern {
		return cmp.Or(r.Resource.Pattern, v1alpha1.ACLLiteral)
	}
	return a.Resource.Type == b.Resource.Type && a.Resource.KafkaName() == b.Resource.KafkaName() &&
		pattern(a) == pattern(b) &&
		cmp.Or(a.Type, v1alpha1.ACLAllow) == cmp.Or(b.Type, v1alpha1.ACLAllow) &&
		cmp.Or(a.Host, authz.Wildcard) == cmp.Or(b.Host, authz.Wildcard)
}

func removeRule(u *v1alpha1.LogUser, removed *authz.ACL) {
	target := ruleOf(removed)
	for i := range u.Spec.ACLs {
		rule := &u.Spec.ACLs[i]
		if sameTarget(*rule, target) {
			rule.Operations = slices.DeleteFunc(rule.Operations,
				func(o v1alpha1.ACLOperation) bool { return o == target.Operations[0] })
		}
	}
}

// NewUser returns the LogUser of type External that is created for a principal's first ACL or
// quota. The resource's name depends only on the principal's name, so that two brokers cannot
// create two resources.
func NewUser(name, cluster string) *v1alpha1.LogUser {
	u := &v1alpha1.LogUser{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LogUser"},
		ObjectMeta: metav1.ObjectMeta{Name: ResourceName(name)},
	}
	u.Spec.Cluster, u.Spec.Authentication.Type = cluster, v1alpha1.UserExternal
	if u.Name != name {
		u.Spec.UserName = name
	}
	return u
}

// AlteredScram returns a user's verifiers after a change. present contains the verifiers before the
// change, and may be nil. The error wraps ErrUnknownUser if there is nothing to delete.
func AlteredScram(present *v1alpha1.ScramVerifiers,
	change ScramChange) (*v1alpha1.ScramVerifiers, error) {
	altered := &v1alpha1.ScramVerifiers{UserName: change.Name}
	found := false
	if present != nil {
		for _, v := range present.Verifiers {
			if v.Mechanism == change.Mechanism {
				found = true
				continue
			}
			altered.Verifiers = append(altered.Verifiers, v)
		}
	}
	switch {
	case change.Verifier != nil:
		altered.Verifiers = append(altered.Verifiers, *change.Verifier)
	case !found:
		return nil, ErrUnknownUser
	}
	return altered, nil
}
