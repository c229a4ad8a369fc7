package local

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/authz"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// openSecured opens a store in a directory, with a LogCluster that authorizes requests.
func openSecured(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(vfs.OS{}, filepath.Join(dir, "metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	cluster := &v1alpha1.LogCluster{}
	cluster.Name = "demo"
	cluster.Spec.Authorization = &v1alpha1.Authorization{Type: v1alpha1.AuthorizationSimple}
	if err := s.Sync(cluster, 1, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func manifestUserOf(name string, kind v1alpha1.UserAuthenticationType) *v1alpha1.LogUser {
	u := metadata.NewUser(name, "demo")
	u.Spec.Authentication.Type = kind
	u.Spec.ACLs = []v1alpha1.ACL{{Resource: v1alpha1.ACLResource{Type: v1alpha1.ACLTopic,
		Name: "a"}, Operations: []v1alpha1.ACLOperation{v1alpha1.ACLRead}}}
	return u
}

func readACL(principal string) metadata.UserChange {
	return metadata.UserChange{Name: principal, Add: []authz.ACL{{
		Principal: authz.Principal{Type: metadata.PrincipalUser, Name: principal}, Host: "*",
		Operation: authz.OpRead, Permission: authz.Allow, Type: authz.ResourceTopic,
		Pattern: authz.PatternLiteral, Name: "b"}}}
}

// TestUsersAreStored checks that the ACLs of manifests and of admin clients, and a password set by
// an admin client, survive a restart of the store.
func TestUsersAreStored(t *testing.T) {
	dir := t.TempDir()
	s := openSecured(t, dir)
	if err := s.SyncUsers([]*v1alpha1.LogUser{manifestUserOf("alice", v1alpha1.UserExternal)},
		nil); err != nil {
		t.Fatal(err)
	}
	change := metadata.ScramChange{Name: "bob", Mechanism: v1alpha1.ScramSha256,
		Verifier: &v1alpha1.ScramVerifier{Mechanism: v1alpha1.ScramSha256, Iterations: 4096,
			Salt: []byte("salt"), StoredKey: []byte("k"), ServerKey: []byte("k")}}
	if err := errors.Join(s.ChangeUser(t.Context(), readACL("bob")),
		s.AlterScram(t.Context(), change)); err != nil {
		t.Fatal(err)
	}
	before := s.Image().Security
	s.Close()
	again := openSecured(t, dir)
	after := again.Image().Security
	if len(after.ACLs) != 2 || len(after.Verifiers(v1alpha1.ScramSha256, "bob")) != 1 ||
		!bytes.Equal(after.UnknownUsers, before.UnknownUsers) ||
		len(again.Users()) != 1 {
		t.Errorf("after a restart: %+v, users %v", after, again.Users())
	}
	info, err := os.Stat(filepath.Join(dir, credentialsName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of credentials: %v, %v", info, err)
	}
}

// TestUsersOfManifestsAreChangedThereOnly checks that a user in a manifest cannot be changed
// through Kafka, because the manifest would undo the change.
func TestUsersOfManifestsAreChangedThereOnly(t *testing.T) {
	s := openSecured(t, t.TempDir())
	if err := s.SyncUsers([]*v1alpha1.LogUser{manifestUserOf("alice", v1alpha1.UserScram)},
		nil); err != nil {
		t.Fatal(err)
	}
	if err := s.ChangeUser(t.Context(), readACL("alice")); !errors.Is(err, metadata.ErrPolicy) {
		t.Errorf("ACL: got %v", err)
	}
	if err := s.AlterScram(t.Context(), metadata.ScramChange{Name: "alice",
		Mechanism: v1alpha1.ScramSha256}); !errors.Is(err, metadata.ErrPolicy) {
		t.Errorf("password: got %v", err)
	}
	if err := s.AlterScram(t.Context(), metadata.ScramChange{Name: "carol",
		Mechanism: v1alpha1.ScramSha256}); !errors.Is(err, metadata.ErrUnknownUser) {
		t.Errorf("password of an unknown user: got %v", err)
	}
	if err := s.SyncUsers(nil, nil); err != nil || len(s.Image().Security.ACLs) != 0 {
		t.Errorf("without manifests: %v, %v", err, s.Image().Security.ACLs)
	}
}
