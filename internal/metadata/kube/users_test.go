package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/credentials"
	"heartwood.dev/heartwood/internal/metadata"
)

// restricted returns a configuration that may read what a broker reads, and of the Secrets only
// those with the given names.
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

// knows returns the condition that the image has a verifier of a user.
func knows(user string, want bool) func(*metadata.Image) bool {
	return func(image *metadata.Image) bool {
		return (len(image.Security.Verifiers(v1alpha1.ScramSha512, user)) == 1) == want
	}
}

// testUsers: the first image contains the passwords and ACLs of all users, as clients treat a login
// that fails as final. Later images follow all shards.
func testUsers(f *fixture) {
	cluster := &v1alpha1.LogCluster{}
	f.get("demo", cluster)
	cluster.Spec.Listeners = v1alpha1.Listeners{{Name: "scram", Port: 9092,
		Authentication: []v1alpha1.Authentication{{Type: v1alpha1.AuthenticationScramSha512}}}}
	if err := f.client.Update(f.t.Context(), cluster); err != nil {
		f.t.Fatal(err)
	}
	config := f.restricted("demo-scram-admin", "demo-scram-0", "demo-scram-1", "demo-scram-2")
	f.create(&v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: "alice"},
		Spec: v1alpha1.LogUserSpec{Cluster: "demo", ACLs: []v1alpha1.ACL{{
			Resource:   v1alpha1.ACLResource{Type: v1alpha1.ACLTopic, Name: "orders"},
			Operations: []v1alpha1.ACLOperation{v1alpha1.ACLRead}}}}})
	f.create(shard(f.t, "demo-scram-0", "alice", "1"))
	b := f.run(0, config)
	b.until("first image", func(image *metadata.Image) bool {
		if !knows("alice", true)(image) || len(image.Security.ACLs) != 1 ||
			!image.Security.Authorize {
			f.t.Errorf("an image has Security %+v", image.Security)
		}
		return true
	})
	second := shard(f.t, "demo-scram-1", "bob", "2")
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

// TestPasswordOfALogUserTakesPrecedence: an admin client may have set a password for a principal
// before its LogUser existed.
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
