package metadata

import (
	"slices"
	"time"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/authz"
	"heartwood.dev/heartwood/internal/quota"
	"heartwood.dev/heartwood/internal/sasl"
)

// Security contains a cluster's users: their permissions and quotas, and the verifiers of their
// passwords. It is immutable. A metadata store keeps one Security until the users change, because
// its Matcher takes time to build.
type Security struct {
	Authorize  bool     // true if requests need authorization; if false, every request is allowed
	SuperUsers []string // names of super users, which are principals of type User
	// ACLs contains the rules of all LogUsers, in the order of authz.Compare.
	ACLs []authz.ACL
	// Scram contains the verifiers of passwords, by mechanism and user name.
	Scram map[string]map[string][]sasl.Verifier
	// UnknownUsers is the key from which the salts of unknown users are derived.
	UnknownUsers []byte
	// Quotas contains the quotas, by user name and by the quota's Kafka name (QuotaKeys). The user
	// name AllUsers stands for the defaults of all users.
	Quotas map[string]map[string]int64

	matcher       *authz.Matcher
	limits        map[string]*quota.Limits // limits by user name
	defaultLimits *quota.Limits            // limits of all other users; nil if there are none
}

// Compiled builds the Matcher and the limits, and returns s. Only the exported fields have to be
// set.
func (s *Security) Compiled() *Security {
	if s == nil || s.matcher != nil {
		return s
	}
	supers := make([]authz.Principal, 0, len(s.SuperUsers))
	for _, name := range s.SuperUsers {
		supers = append(supers, authz.Principal{Type: PrincipalUser, Name: name})
	}
	s.matcher = authz.New(s.ACLs, supers)
	s.ACLs = s.matcher.ACLs()
	s.compileLimits()
	return s
}

// PrincipalUser is the type of LogUsers' principals.
const PrincipalUser = "User"

// Matcher returns the compiled ACLs, or nil if every request is allowed. A nil Security allows
// every request.
func (s *Security) Matcher() *authz.Matcher {
	if s == nil || !s.Authorize {
		return nil
	}
	return s.matcher
}

// Verifiers returns the verifiers of a user's passwords for the given mechanism.
func (s *Security) Verifiers(mechanism, user string) []sasl.Verifier {
	if s == nil {
		return nil
	}
	return s.Scram[mechanism][user]
}

// ResolveSecurity returns a cluster's users, or nil if no user has ACLs, quotas or a password and
// the cluster neither authenticates nor authorizes clients. If several LogUsers have the same
// principal, the oldest applies. cluster may be nil. The schema validates the names and operations
// in LogUsers; an ACL that is nevertheless invalid is skipped.
func ResolveSecurity(cluster *v1alpha1.LogCluster, users []*v1alpha1.LogUser,
	scram map[string]*v1alpha1.ScramVerifiers, unknownUsers []byte) *Security {
	s := &Security{UnknownUsers: unknownUsers, Scram: map[string]map[string][]sasl.Verifier{}}
	if cluster != nil {
		s.Authorize = cluster.Spec.Listeners.Authenticate()
		if a := cluster.Spec.Authorization; a != nil {
			s.Authorize = a.Type == v1alpha1.AuthorizationSimple
			s.SuperUsers = slices.Clone(a.SuperUsers)
		}
	}
	for _, u := range OldestUsers(users) {
		s.ACLs = append(s.ACLs, ACLsOf(u)...)
		s.addQuotas(u)
	}
	for _, scramVerifiers := range scram {
		s.addScram(scramVerifiers)
	}
	if !s.Authorize && len(s.ACLs) == 0 && len(scram) == 0 && len(s.Quotas) == 0 &&
		(cluster == nil || !cluster.Spec.Listeners.Authenticate()) {
		return nil
	}
	return s.Compiled()
}

func (s *Security) addQuotas(u *v1alpha1.LogUser) {
	quotas := QuotasOf(u)
	if len(quotas) == 0 {
		return
	}
	if s.Quotas == nil {
		s.Quotas = map[string]map[string]int64{}
	}
	s.Quotas[u.PrincipalName()] = quotas
}

func (s *Security) addScram(scramVerifiers *v1alpha1.ScramVerifiers) {
	for _, v := range scramVerifiers.Verifiers {
		if s.Scram[v.Mechanism] == nil {
			s.Scram[v.Mechanism] = map[string][]sasl.Verifier{}
		}
		var notAfter time.Time
		if v.NotAfter != nil {
			notAfter = v.NotAfter.Time
		}
		name, verifiers := scramVerifiers.UserName, s.Scram[v.Mechanism]
		verifiers[name] = append(verifiers[name],
			sasl.Verifier{Iterations: v.Iterations, Salt: v.Salt, StoredKey: v.StoredKey,
				ServerKey: v.ServerKey, NotAfter: notAfter})
	}
}

// OldestUsers returns, for each principal, the oldest of its LogUsers.
func OldestUsers(users []*v1alpha1.LogUser) (oldest []*v1alpha1.LogUser) {
	indexes := map[string]int{}
	for _, u := range users {
		i, exists := indexes[u.PrincipalName()]
		switch {
		case !exists:
			indexes[u.PrincipalName()] = len(oldest)
			oldest = append(oldest, u)
		case olderUser(u, oldest[i]):
			oldest[i] = u
		}
	}
	return oldest
}

func olderUser(a, b *v1alpha1.LogUser) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID || a.UID == b.UID && a.Name < b.Name
}
