package kube

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// restricted returns a client configuration that may read the same resources as a broker, but only
// the Secrets with the given names.
func (f *fixture) restricted(secrets ...string) *rest.Config {
	group, read := []string{v1alpha1.GroupVersion.Group}, []string{"get", "list", "watch"}
	f.create(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "broker"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: group, Resources: []string{"logclusters", "topics", "partitionsets",
			"logusers"}, Verbs: read},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: append(read, "create", "update")},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: secrets,
			Verbs: read},
	}})
	f.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "broker"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "broker"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName,
			Name: f.namespace}},
	})
	config := rest.CopyConfig(f.config)
	config.Impersonate.UserName = f.namespace
	return config
}

// shard returns a Secret with the verifiers of one user.
func shard(t *testing.T, name, user, password string) *corev1.Secret {
	t.Helper()
	verifiers, err := credentials.Verifiers(password, nil)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := (&v1alpha1.ScramVerifiers{UserName: user, Verifiers: verifiers}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name},
		Data: map[string][]byte{user: encoded}}
}

// shard returns a Secret that the LogCluster owns, like the Secrets that the operator creates.
func (f *fixture) shard(name, user, password string) *corev1.Secret {
	f.t.Helper()
	return f.owned(shard(f.t, name, user, password))
}

// owned makes the LogCluster the owner of a Secret.
func (f *fixture) owned(secret *corev1.Secret) *corev1.Secret {
	f.t.Helper()
	cluster := &v1alpha1.LogCluster{}
	f.get("demo", cluster)
	secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cluster,
		v1alpha1.GroupVersion.WithKind("LogCluster"))}
	return secret
}

// knows returns a condition on an image: that it has a verifier for the user or, if want is false,
// that it has none.
func knows(user string, want bool) func(*metadata.Image) bool {
	return func(image *metadata.Image) bool {
		return (len(image.Security.Verifiers(v1alpha1.ScramSha512, user)) == 1) == want
	}
}

// authenticate makes the LogCluster's listener authenticate clients by passwords.
func (f *fixture) authenticate() {
	f.t.Helper()
	cluster := &v1alpha1.LogCluster{}
	f.get("demo", cluster)
	cluster.Spec.Listeners = v1alpha1.Listeners{{Name: "scram", Port: 9092,
		Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationScramSha512}}}}
	if err := f.client.Update(f.t.Context(), cluster); err != nil {
		f.t.Fatal(err)
	}
}

// permitSecrets changes the Role created by restricted, so that it permits the Secrets with the
// given names.
func (f *fixture) permitSecrets(names ...string) {
	f.t.Helper()
	role := &rbacv1.Role{}
	f.get("broker", role)
	role.Rules[len(role.Rules)-1].ResourceNames = names
	if err := f.client.Update(f.t.Context(), role); err != nil {
		f.t.Fatal(err)
	}
}

// testRoleWithoutSecrets checks what happens if authentication is enabled for a listener of a
// paused LogCluster, whose Role the operator does not change. Running brokers must still apply
// images, and so must a broker that is restarted with its previous listeners. Passwords must work
// once the Role names their Secrets.
func testRoleWithoutSecrets(f *fixture) {
	f.topic("orders", 1)
	// Name another Secret, because a rule without names would permit all Secrets.
	config := f.restricted("of-another-cluster")
	b := f.run(0, config)
	b.until("up", up(0))
	f.authenticate()
	f.create(f.shard("demo-scram-0", "alice", "1"))
	b.until("authentication enabled",
		func(image *metadata.Image) bool { return image.Security != nil && image.Security.Authorize })
	f.elect(orders(0), 0, 1, 1)
	b.until("elected", leads("orders", 0, 1))
	restarted := f.run(1, config)
	restarted.until("restarted", up(0, 1))
	if !knows("alice", false)(b.last) || !knows("alice", false)(restarted.last) {
		f.t.Error("brokers have read a Secret that the Role does not name")
	}
	f.permitSecrets("demo-scram-admin", "demo-scram-0", "demo-scram-1")
	b.until("Role updated", knows("alice", true))
}

// testRoleWithoutNextShard checks that users in all other shards can still be added and removed if
// there is a new shard of passwords, but the operator does not add the next shard to the Role.
func testRoleWithoutNextShard(f *fixture) {
	f.authenticate()
	first := f.shard("demo-scram-0", "alice", "1")
	f.create(first)
	b := f.runWithPasswords(0, f.restricted("demo-scram-admin", "demo-scram-0", "demo-scram-1"))
	b.until("first shard", knows("alice", true))
	f.create(f.shard("demo-scram-1", "bob", "2"))
	b.until("second shard", knows("bob", true))
	first.Data = nil
	if err := f.client.Update(f.t.Context(), first); err != nil {
		f.t.Fatal(err)
	}
	b.until("user removed", knows("alice", false))
	if !knows("bob", true)(b.last) {
		f.t.Error("the user of another shard was removed")
	}
}

// testForeignSecret checks that a person who may create Secrets, but no LogUsers, cannot add a user
// by creating a Secret with the name of the next shard. Brokers must start as if the Secret did not
// exist.
func testForeignSecret(f *fixture) {
	f.authenticate()
	f.create(f.shard("demo-scram-0", "alice", "1"))
	f.create(shard(f.t, "demo-scram-1", "mallory", "2"))
	f.create(shard(f.t, "demo-scram-admin", "mallory", "2"))
	b := f.runWithPasswords(0, f.restricted("demo-scram-admin", "demo-scram-0", "demo-scram-1"))
	b.until("first image", knows("alice", true))
	if !knows("mallory", false)(b.last) {
		f.t.Error("a Secret that the LogCluster does not own has added a user")
	}
}

// testFirstImageWaitsForPasswords checks that a broker whose listener authenticates clients by
// passwords does not serve before it may read the passwords, because clients do not retry after a
// failed login.
func testFirstImageWaitsForPasswords(f *fixture) {
	f.authenticate()
	f.create(f.shard("demo-scram-0", "alice", "1"))
	config := f.restricted("of-another-cluster")
	f.run(1, config).until("broker without passwords", up(1))
	b := f.runWithPasswords(0, config)
	await.Until(f.t, "broker registered", func() bool { return b.self.Load() != nil })
	f.permitSecrets("demo-scram-admin", "demo-scram-0", "demo-scram-1")
	b.until("first image", func(image *metadata.Image) bool {
		if !knows("alice", true)(image) {
			f.t.Error("the first image lacks a user")
		}
		return true
	})
}

// TestUnreadSecretIsLoggedOnce checks that a Secret that stays unread is logged once. A short delay
// must not be logged, because the Role names a new shard only some time after its creation.
func TestUnreadSecretIsLoggedOnce(t *testing.T) {
	var u unreadSecret
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		after  time.Duration
		unread string
		logs   bool
	}{{0, "a", false}, {unreadTolerance - 1, "a", false}, {unreadTolerance, "a", true},
		{time.Hour, "a", false}, {time.Hour, "", false}, {2 * time.Hour, "a", false},
		{3 * time.Hour, "a", true}} {
		if logs := u.note(step.unread, began.Add(step.after)); logs != step.logs {
			t.Errorf("after %v: got %t, want %t", step.after, logs, step.logs)
		}
	}
}

// testUsers checks that the first image contains the passwords and ACLs of all users, because
// clients do not retry after a failed login, and that later images contain changes in all shards.
func testUsers(f *fixture) {
	f.authenticate()
	config := f.restricted("demo-scram-admin", "demo-scram-0", "demo-scram-1", "demo-scram-2")
	f.create(&v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: "alice"},
		Spec: v1alpha1.LogUserSpec{Cluster: "demo", ACLs: []v1alpha1.ACL{{
			Resource:   v1alpha1.ACLResource{Type: v1alpha1.ACLTopic, Name: "orders"},
			Operations: []v1alpha1.ACLOperation{v1alpha1.ACLRead}}}}})
	f.create(f.shard("demo-scram-0", "alice", "1"))
	b := f.runWithPasswords(0, config)
	b.until("first image", func(image *metadata.Image) bool {
		if !knows("alice", true)(image) || len(image.Security.ACLs) != 1 ||
			!image.Security.Authorize {
			f.t.Errorf("an image has Security %+v", image.Security)
		}
		return true
	})
	second := f.shard("demo-scram-1", "bob", "2")
	f.create(second)
	b.until("second shard", knows("bob", true))
	if err := f.client.Delete(f.t.Context(), second); err != nil {
		f.t.Fatal(err)
	}
	b.until("second shard deleted", knows("bob", false))
	user := &v1alpha1.LogUser{}
	f.get("alice", user)
	user.Spec.ACLs = nil
	if err := f.client.Update(f.t.Context(), user); err != nil {
		f.t.Fatal(err)
	}
	b.until("ACL removed", func(image *metadata.Image) bool {
		return len(image.Security.ACLs) == 0
	})
}

// TestPasswordOfALogUserTakesPrecedence checks that a LogUser's password takes precedence over a
// password that an admin client has set for the same principal before the LogUser existed.
func TestPasswordOfALogUserTakesPrecedence(t *testing.T) {
	admin := shard(t, "demo-scram-admin", "alice", "old")
	admin.Data["invalid"] = []byte("{")
	own := shard(t, "demo-scram-0", "alice", "new")
	for _, secrets := range [][]*corev1.Secret{{admin, own}, {own, admin}} {
		got, faults := verifiers("demo", secrets)
		if len(faults) != 1 || !credentials.Verify(got["alice"].Verifiers, "new") {
			t.Errorf("got %+v, faults %v", got["alice"], faults)
		}
	}
}

// testAdminPasswordsBeforeLogUsers checks that a password set by an admin client works before a
// LogUser of type Scram, and therefore the first shard, exists. If the Secret for such passwords
// does not exist, the change must be rejected with a retriable error.
func testAdminPasswordsBeforeLogUsers(f *fixture) {
	f.authenticate()
	b := f.runWithPasswords(0, f.config)
	b.until("first image", func(image *metadata.Image) bool { return image.Security.Authorize })
	verifiers, err := credentials.Verifiers("secret", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	index := slices.IndexFunc(verifiers, func(v v1alpha1.ScramVerifier) bool {
		return v.Mechanism == v1alpha1.ScramSha512
	})
	change := metadata.ScramChange{Name: "carol", Mechanism: v1alpha1.ScramSha512,
		Verifier: &verifiers[index]}
	if err := b.AlterScram(f.t.Context(), change); !errors.Is(err, metadata.ErrUnavailable) {
		f.t.Errorf("without the Secret: %v", err)
	}
	f.create(f.owned(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "demo-scram-admin"}}))
	if err := b.AlterScram(f.t.Context(), change); err != nil {
		f.t.Fatal(err)
	}
	b.until("password of an admin client", knows("carol", true))
	f.create(f.shard("demo-scram-0", "alice", "1"))
	b.until("first shard", knows("alice", true))
	change.Verifier = nil
	if err := b.AlterScram(f.t.Context(), change); err != nil {
		f.t.Fatal(err)
	}
	b.until("password deleted", knows("carol", false))
	limit := int64(1 << 20)
	if err := b.ChangeUser(f.t.Context(), metadata.UserChange{Name: "CN=dave",
		Quotas: map[string]*int64{"producer_byte_rate": &limit}}); err != nil {
		f.t.Fatal(err)
	}
	b.until("quota of an admin client", func(image *metadata.Image) bool {
		return image.Security.Quotas["CN=dave"]["producer_byte_rate"] == limit
	})
}

// TestUnchangedUsersAreCompiledOnce checks trap 32 in docs/internals/attacks.md: images follow each
// other quickly, so the ACLs of 5,000 users must be compiled only when one of them has changed.
func TestUnchangedUsersAreCompiledOnce(t *testing.T) {
	r := resources{cluster: &v1alpha1.LogCluster{}}
	r.cluster.Name, r.cluster.UID, r.cluster.Generation = "demo", "c", 1
	r.cluster.Spec.Authorization = &v1alpha1.Authorization{Type: v1alpha1.AuthorizationSimple}
	for i := range 5000 {
		name := strconv.Itoa(i)
		u := &v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
			Generation: 1}}
		u.Spec.Cluster = "demo"
		u.Spec.ACLs = []v1alpha1.ACL{{Resource: v1alpha1.ACLResource{Type: v1alpha1.ACLTopic,
			Name: "orders-" + name, Pattern: v1alpha1.ACLPrefix},
			Operations: []v1alpha1.ACLOperation{v1alpha1.ACLRead, v1alpha1.ACLWrite}}}
		r.users = append(r.users, u)
	}
	var c securityCache
	first, _ := c.security(r)
	if len(first.ACLs) != 10_000 {
		t.Fatalf("%d ACLs", len(first.ACLs))
	}
	for range 1000 {
		if again, _ := c.security(r); again != first {
			t.Fatal("unchanged users were compiled again")
		}
	}
	changed := r.users[77].DeepCopy()
	changed.Generation, changed.Spec.ACLs = 2, nil
	r.users[77] = changed
	if next, _ := c.security(r); next == first || len(next.ACLs) != 9_998 {
		t.Error("a changed user has no effect")
	}
}
