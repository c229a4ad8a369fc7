package cli

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// testRotateRefused checks that the command refuses users of type External or with passwordFrom,
// because the operator does not create credentials for them.
func (f *fixture) testRotateRefused(t *testing.T) {
	for name, test := range map[string]struct {
		authentication v1alpha1.UserAuthentication
		want           string
	}{
		"external": {v1alpha1.UserAuthentication{Type: v1alpha1.UserExternal},
			"has no credentials to rotate"},
		"given": {v1alpha1.UserAuthentication{Type: v1alpha1.UserScram,
			PasswordFrom: &v1alpha1.SecretKey{Name: "chosen", Key: "word"}},
			"its password is that of spec.authentication.passwordFrom: change key word of Secret chosen"},
	} {
		f.create(t, &v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.LogUserSpec{Cluster: "main", Authentication: test.authentication}})
		f.run(t, "user", "rotate", name, "--yes").fails(t, test.want)
		if got := get(t, f, name, &v1alpha1.LogUser{}).Annotations; len(got) > 0 {
			t.Errorf("%s: annotations %v", name, got)
		}
	}
}
