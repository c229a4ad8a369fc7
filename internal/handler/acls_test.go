package handler

import (
	"context"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/authz"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/sasl"
)

// userStore implements metadata.UserAdmin with the functions that the real stores use.
type userStore struct {
	b     *broker
	users map[string]*v1alpha1.LogUser
	scram map[string]*v1alpha1.ScramVerifiers
}

// withUsers returns a broker with authorization. It allows every operation to every client until
// the test sets b.opts.Authorize.
func withUsers(t *testing.T) (*broker, *userStore) {
	b := newBroker(t)
	s := &userStore{b: b, users: map[string]*v1alpha1.LogUser{},
		scram: map[string]*v1alpha1.ScramVerifiers{}}
	b.configure(func(o *Options) { o.Users = s })
	s.publish()
	return b, s
}

func (s *userStore) publish() {
	cluster := &v1alpha1.LogCluster{}
	cluster.Spec.Authorization = &v1alpha1.Authorization{Type: v1alpha1.AuthorizationSimple}
	var all []*v1alpha1.LogUser
	for _, u := range s.users {
		all = append(all, u)
	}
	image := *s.b.image.Load()
	image.Security = metadata.ResolveSecurity(cluster, all, s.scram, nil)
	s.b.image.Store(&image)
}

func (s *userStore) ChangeUser(_ context.Context, change metadata.UserChange) error {
	before := s.users[change.Name]
	if before == nil {
		before = metadata.NewUser(change.Name, "demo")
	}
	s.users[change.Name] = metadata.AlteredUser(before, change)
	s.publish()
	return nil
}

func (s *userStore) AlterScram(_ context.Context, change metadata.ScramChange) error {
	verifiers, err := metadata.AlteredScram(s.scram[change.Name], change)
	if err == nil {
		s.scram[change.Name] = verifiers
		s.publish()
	}
	return err
}

func newACL(principal, topic string, pattern kmsg.ACLResourcePatternType,
	operation kmsg.ACLOperation) kmsg.CreateACLsRequestCreation {
	return kmsg.CreateACLsRequestCreation{ResourceType: kmsg.ACLResourceTypeTopic,
		ResourceName: topic, ResourcePatternType: pattern, Principal: principal, Host: "*",
		Operation: operation, PermissionType: kmsg.ACLPermissionTypeAllow}
}

// describedACLs sends DescribeACLs and returns the ACLs as text.
func (b *broker) describedACLs(change func(*kmsg.DescribeACLsRequest)) (acls []string) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, 1
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	change(req)
	response := ask[*kmsg.DescribeACLsResponse](b, 3, req)
	for _, r := range response.Resources {
		for _, a := range r.ACLs {
			acl := authz.ACL{Type: authz.ResourceType(r.ResourceType), Name: r.ResourceName,
				Pattern: authz.PatternType(r.ResourcePatternType), Host: a.Host,
				Operation:  authz.Operation(a.Operation),
				Permission: authz.Permission(a.PermissionType)}
			acl.Principal, _ = authz.ParsePrincipal(a.Principal)
			acls = append(acls, acl.String())
		}
	}
	return acls
}

func TestACLsAreStoredInLogUsers(t *testing.T) {
	b, users := withUsers(t)
	create := kmsg.NewPtrCreateACLsRequest()
	create.Creations = []kmsg.CreateACLsRequestCreation{
		newACL("User:alice", "orders", 3, kmsg.ACLOperationRead),
		newACL("User:alice", "orders", 3, kmsg.ACLOperationWrite),
		newACL("User:CN=bob,O=x", "team-", 4, kmsg.ACLOperationAll),
		newACL("Group:admins", "orders", 3, kmsg.ACLOperationRead),
		newACL("User:alice", "", 3, kmsg.ACLOperationRead),
		newACL("User:alice", "orders", 3, kmsg.ACLOperationClusterAction),
		newACL("alice", "orders", 3, kmsg.ACLOperationRead),
	}
	var codes []int16
	for _, r := range ask[*kmsg.CreateACLsResponse](b, 3, create).Results {
		codes = append(codes, r.ErrorCode)
	}
	if !slices.Equal(codes, []int16{0, 0, 0, 42, 42, 42, 42}) {
		t.Fatalf("error codes %v", codes)
	}
	alice, bob := users.users["alice"], users.users["CN=bob,O=x"]
	if len(alice.Spec.ACLs) != 1 || len(alice.Spec.ACLs[0].Operations) != 2 {
		t.Errorf("ACLs of alice: %+v, want one of two operations", alice.Spec.ACLs)
	}
	if alice.Spec.UserName != "" || bob.Spec.UserName != "CN=bob,O=x" {
		t.Errorf("user names %q and %q", alice.Spec.UserName, bob.Spec.UserName)
	}
	if got := bob.Spec.Authentication.Type; got != v1alpha1.UserExternal {
		t.Errorf("authentication of bob: %s, want external", got)
	}
	got := b.describedACLs(func(*kmsg.DescribeACLsRequest) {})
	want := []string{"ALLOW READ on TOPIC:LITERAL:orders to User:alice from *",
		"ALLOW WRITE on TOPIC:LITERAL:orders to User:alice from *",
		"ALLOW ALL on TOPIC:PREFIXED:team- to User:CN=bob,O=x from *"}
	if !slices.Equal(got, want) {
		t.Errorf("described: %q", got)
	}
	name := "team-x"
	if got := b.describedACLs(func(r *kmsg.DescribeACLsRequest) {
		r.ResourceName, r.ResourcePatternType = &name, 2
	}); !slices.Equal(got, want[2:]) {
		t.Errorf("described by a match: %q", got)
	}
	remove := kmsg.NewPtrDeleteACLsRequest()
	remove.Filters = []kmsg.DeleteACLsRequestFilter{
		{ResourceType: kmsg.ACLResourceTypeAny, ResourcePatternType: 1,
			Operation: kmsg.ACLOperationWrite, PermissionType: kmsg.ACLPermissionTypeAny},
		{ResourceType: 99, ResourcePatternType: 1, Operation: 1, PermissionType: 1}}
	deleted := ask[*kmsg.DeleteACLsResponse](b, 3, remove).Results
	if len(deleted[0].MatchingACLs) != 1 || deleted[0].MatchingACLs[0].Operation !=
		kmsg.ACLOperationWrite || deleted[1].ErrorCode != 42 {
		t.Errorf("deleted: %+v", deleted)
	}
	if got := b.describedACLs(func(*kmsg.DescribeACLsRequest) {}); len(got) != 2 {
		t.Errorf("after the deletion: %q", got)
	}
}

func TestReadOnlyRefusesChangesOfUsers(t *testing.T) {
	b, users := withUsers(t)
	image := *b.image.Load()
	image.Policy.ReadOnly = true
	b.image.Store(&image)
	create := kmsg.NewPtrCreateACLsRequest()
	create.Creations = append(create.Creations, newACL("User:a", "t", 3, kmsg.ACLOperationRead))
	if got := ask[*kmsg.CreateACLsResponse](b, 3, create).Results[0].ErrorCode; got != 44 {
		t.Errorf("CreateAcls: error %d", got)
	}
	alter := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	alter.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "a", Mechanism: 1}}
	if got := ask[*kmsg.AlterUserSCRAMCredentialsResponse](b, 0,
		alter).Results[0].ErrorCode; got != 44 {
		t.Errorf("AlterUserScramCredentials: error %d", got)
	}
	if len(users.users)+len(users.scram) != 0 {
		t.Error("a refused request has changed a user")
	}
}

// TestSCRAMNeedsAuthentication checks that a password cannot be altered in a cluster whose
// listeners do not authenticate.
func TestSCRAMNeedsAuthentication(t *testing.T) {
	b, users := withUsers(t)
	image := *b.image.Load()
	image.Security = nil
	b.image.Store(&image)
	alter := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	alter.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "a", Mechanism: 1}}
	if got := ask[*kmsg.AlterUserSCRAMCredentialsResponse](b, 0,
		alter).Results[0].ErrorCode; got != 35 || len(users.scram) != 0 {
		t.Errorf("got error %d, want UNSUPPORTED_VERSION", got)
	}
}

func TestSCRAMCredentialsAreAltered(t *testing.T) {
	b, users := withUsers(t)
	salted := make([]byte, 32)
	upsert := func(name string, mechanism int8, iterations int32,
		salt []byte) kmsg.AlterUserSCRAMCredentialsRequestUpsertion {
		return kmsg.AlterUserSCRAMCredentialsRequestUpsertion{Name: name, Mechanism: mechanism,
			Iterations: iterations, Salt: salt, SaltedPassword: salted}
	}
	for name, c := range map[string]struct {
		upsert kmsg.AlterUserSCRAMCredentialsRequestUpsertion
		code   int16
	}{
		"alice":       {upsert("alice", 1, 4096, []byte("salt")), 0},
		"few":         {upsert("few", 1, 4095, []byte("salt")), 93},
		"many":        {upsert("many", 1, 16385, []byte("salt")), 93},
		"no salt":     {upsert("no salt", 1, 4096, nil), 93},
		"":            {upsert("", 1, 4096, []byte("salt")), 93},
		"mechanism":   {upsert("mechanism", 3, 4096, []byte("salt")), 33},
		"wrong bytes": {upsert("wrong bytes", 2, 4096, []byte("salt")), 93},
	} {
		req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
		req.Upsertions = append(req.Upsertions, c.upsert)
		got := ask[*kmsg.AlterUserSCRAMCredentialsResponse](b, 0, req).Results
		if len(got) != 1 || got[0].ErrorCode != c.code || got[0].User != name {
			t.Errorf("%q: got %+v, want error %d", name, got, c.code)
		}
	}
	want := sasl.FromSaltedPassword(sasl.ScramSHA256, salted, []byte("salt"), 4096)
	stored := users.scram["alice"].Verifiers[0]
	if !slices.Equal(stored.StoredKey, want.StoredKey) ||
		!slices.Equal(stored.ServerKey, want.ServerKey) {
		t.Error("the stored keys differ")
	}
	describe := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	got := ask[*kmsg.DescribeUserSCRAMCredentialsResponse](b, 0, describe).Results
	if len(got) != 1 || len(got[0].CredentialInfos) != 1 {
		t.Fatalf("described: %+v, want one user with one credential", got)
	}
	info := got[0].CredentialInfos[0]
	if got[0].User != "alice" {
		t.Errorf("described %s, want alice", got[0].User)
	}
	if info.Mechanism != 1 || info.Iterations != 4096 {
		t.Errorf("described: %+v, want mechanism 1, 4096 iterations", info)
	}
	describe.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: "bob"}, {Name: "alice"},
		{Name: "alice"}}
	got = ask[*kmsg.DescribeUserSCRAMCredentialsResponse](b, 0, describe).Results
	if len(got) != 2 || got[0].ErrorCode != 91 || got[1].ErrorCode != 92 {
		t.Errorf("described by name: %+v", got)
	}
	remove := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	remove.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "alice", Mechanism: 1},
		{Name: "bob", Mechanism: 2}}
	removed := ask[*kmsg.AlterUserSCRAMCredentialsResponse](b, 0, remove).Results
	if len(removed) != 2 || removed[0].ErrorCode != 0 || removed[1].ErrorCode != 91 {
		t.Errorf("deletions: %+v", removed)
	}
	twice := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	twice.Upsertions = append(twice.Upsertions, upsert("a", 1, 4096, []byte("s")),
		upsert("a", 1, 4096, []byte("s")))
	if got := ask[*kmsg.AlterUserSCRAMCredentialsResponse](b, 0, twice).Results; len(got) != 1 ||
		got[0].ErrorCode != 92 {
		t.Errorf("twice: %+v", got)
	}
}
