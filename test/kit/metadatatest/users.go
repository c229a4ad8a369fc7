package metadatatest

import (
	"bytes"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/authz"
	"heartwood.dev/heartwood/internal/metadata"
)

func testUsers(c *cluster) {
	b := c.startAll()[0]
	rule := authz.ACL{Principal: authz.Principal{Type: metadata.PrincipalUser, Name: "app"},
		Host: authz.Wildcard, Operation: authz.OpRead, Permission: authz.Allow,
		Type: authz.ResourceTopic, Pattern: authz.PatternLiteral, Name: "a"}
	has := func(want bool) func(*metadata.Image) bool {
		return func(i *metadata.Image) bool {
			return want == (i.Security != nil && slices.Contains(i.Security.ACLs, rule))
		}
	}
	c.expect("add", b.ChangeUser(c.Context(), metadata.UserChange{Name: "app",
		Add: []authz.ACL{rule}}), nil)
	b.until("the ACL", has(true))
	c.expect("remove", b.ChangeUser(c.Context(), metadata.UserChange{Name: "app",
		Remove: []authz.ACL{rule}}), nil)
	b.until("no ACL", has(false))
}

// testQuotas checks that a change of a user sets and removes individual quotas, and keeps the
// others.
func testQuotas(c *cluster) {
	b := c.startAll()[0]
	set := func(user string, quotas map[string]*int64) {
		c.Helper()
		c.expect("quotas of "+user, b.ChangeUser(c.Context(), metadata.UserChange{Name: user,
			Quotas: quotas}), nil)
	}
	until := func(what, user, key string, want int64) {
		c.Helper()
		b.until(what, func(i *metadata.Image) bool {
			return i.Security != nil && i.Security.Quotas[user][key] == want
		})
	}
	set("app", map[string]*int64{"producer_byte_rate": new(int64(2048)),
		"controller_mutation_rate": new(int64(7))})
	until("the quota", "app", "producer_byte_rate", 2048)
	set(metadata.AllUsers, map[string]*int64{"consumer_byte_rate": new(int64(1000))})
	until("the default quota", metadata.AllUsers, "consumer_byte_rate", 1000)
	set("app", map[string]*int64{"producer_byte_rate": nil})
	until("no quota of bytes", "app", "producer_byte_rate", 0)
	until("the other quota", "app", "controller_mutation_rate", 7)
	set("app", map[string]*int64{"controller_mutation_rate": nil})
	until("no quota", "app", "controller_mutation_rate", 0)
	until("the default quota", metadata.AllUsers, "consumer_byte_rate", 1000)
}

// testScram checks that a password is set, replaced and deleted for each mechanism separately. The
// operator owns the password of a LogUser of type Scram.
func testScram(c *cluster) {
	c.world.Authenticate(c.TB, &v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: "owned"},
		Spec: v1alpha1.LogUserSpec{
			Authentication: v1alpha1.UserAuthentication{Type: v1alpha1.UserScram}}})
	b := c.startAll()[0]
	alter := func(user, mechanism string, verifier *v1alpha1.ScramVerifier) error {
		return b.AlterScram(c.Context(), metadata.ScramChange{Name: user, Mechanism: mechanism,
			Verifier: verifier})
	}
	password := func(mechanism, key string) *v1alpha1.ScramVerifier {
		return &v1alpha1.ScramVerifier{Mechanism: mechanism, Iterations: 4096, Salt: []byte("salt"),
			StoredKey: []byte(key), ServerKey: []byte("server")}
	}
	until := func(mechanism string, keys ...string) {
		c.Helper()
		b.until("passwords by "+mechanism, func(i *metadata.Image) bool {
			found := i.Security.Verifiers(mechanism, "App")
			for index, v := range found {
				if index < len(keys) && !bytes.Equal(v.StoredKey, []byte(keys[index])) ||
					v.Iterations != 4096 || string(v.Salt) != "salt" || string(v.ServerKey) != "server" {
					return false
				}
			}
			return len(found) == len(keys)
		})
	}
	const sha256, sha512 = v1alpha1.ScramSha256, v1alpha1.ScramSha512
	c.expect("set", alter("App", sha512, password(sha512, "first")), nil)
	until(sha512, "first")
	c.expect("replace", alter("App", sha512, password(sha512, "second")), nil)
	until(sha512, "second")
	c.expect("another mechanism", alter("App", sha256, password(sha256, "third")), nil)
	until(sha256, "third")
	until(sha512, "second")
	c.expect("delete", alter("App", sha512, nil), nil)
	until(sha512)
	until(sha256, "third")
	c.expect("delete again", alter("App", sha512, nil), metadata.ErrUnknownUser)
	c.expect("unknown user", alter("nobody", sha512, nil), metadata.ErrUnknownUser)
	c.expect("password of the operator", alter("owned", sha512, password(sha512, "x")),
		metadata.ErrPolicy)
	c.stop()
	c.world.Reopen(c.TB)
	b = c.start(0)
	until(sha256, "third")
	until(sha512)
	c.expect("delete the last one", alter("App", sha256, nil), nil)
	until(sha256)
}
