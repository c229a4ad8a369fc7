package kube

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/access"
	"heartwood.dev/heartwood/internal/sasl"
	"heartwood.dev/heartwood/internal/tokens"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/envtest"
)

// fixture is a namespace on a real API server.
type fixture struct {
	t         *testing.T
	all       *kubernetes.Clientset // with all permissions
	namespace string
}

// account creates a ServiceAccount.
func (f *fixture) account(name string) {
	f.t.Helper()
	if _, err := f.all.CoreV1().ServiceAccounts(f.namespace).Create(f.t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
}

// token returns a token for a ServiceAccount. If audience is "", the token's audience is the API
// server.
func (f *fixture) token(account, audience string) string {
	f.t.Helper()
	spec := authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(600))}
	if audience != "" {
		spec.Audiences = []string{audience}
	}
	request, err := f.all.CoreV1().ServiceAccounts(f.namespace).CreateToken(f.t.Context(), account,
		&authenticationv1.TokenRequest{Spec: spec},
		metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return request.Status.Token
}

// grant grants a ServiceAccount the given rules in the namespace.
func (f *fixture) grant(account string, rules ...rbacv1.PolicyRule) {
	f.t.Helper()
	_, err := f.all.RbacV1().Roles(f.namespace).Create(f.t.Context(),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: rules},
		metav1.CreateOptions{})
	if err == nil {
		_, err = f.all.RbacV1().RoleBindings(f.namespace).Create(f.t.Context(),
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: account},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account,
					Namespace: f.namespace}}}, metav1.CreateOptions{})
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// TestTokensOfServiceAccounts checks that the Gate admits requests with tokens of a real API
// server, with that server's keys and permission reviews. The broker's own ServiceAccount has only
// the permission in its Role and the permissions of every ServiceAccount.
func TestTokensOfServiceAccounts(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("make test sets KUBEBUILDER_ASSETS")
	}
	config := envtest.Start(t)
	namespace, err := envtest.Namespace(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	all, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t, all, namespace}
	for _, name := range []string{"broker", "cleaner", "prometheus", "nobody"} {
		f.account(name)
	}
	group := []string{v1alpha1.GroupVersion.Group}
	f.grant("broker", rbacv1.PolicyRule{APIGroups: []string{"authorization.k8s.io"},
		Resources: []string{"localsubjectaccessreviews"}, Verbs: []string{"create"}})
	f.grant("cleaner", rbacv1.PolicyRule{APIGroups: group, Verbs: []string{"create"},
		Resources: []string{"logclusters/clean"}, ResourceNames: []string{"demo"}})
	f.grant("prometheus", rbacv1.PolicyRule{APIGroups: group, Verbs: []string{"get"},
		Resources: []string{"logclusters/metrics"}})

	// The broker authenticates with its own ServiceAccount token, as in a pod.
	own := rest.AnonymousClientConfig(config)
	own.BearerToken = f.token("broker", "")
	audience := v1alpha1.ServiceAccountAudience(namespace, "demo")
	client, err := New(own, namespace, "demo")
	if err != nil {
		t.Fatal(err)
	}
	source := tokens.New(tokens.Options{Read: client.Keys, Name: "API server",
		Accept: sasl.Issuer{Audience: audience},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	go source.Run(t.Context())
	gate := access.New(access.Options{Tokens: source, Review: client.Review, Audience: audience,
		Peer: func(*tls.ConnectionState) (string, error) { return "", errors.New("none") }})
	handler := gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("served"))
	}))
	send := func(method, path, token string) (int, string) {
		request := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
		request.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		return answer.Code, answer.Body.String()
	}
	const clean = "/api/v1/topics/orders/clean"
	cleaner := f.token("cleaner", audience)
	prometheus := f.token("prometheus", audience)
	await.For(t, func() string { // until the keys are read and RBAC has taken effect
		status, body := send("POST", clean, cleaner)
		if status == http.StatusOK { // the right of prometheus is granted last
			status, body = send("GET", "/metrics", prometheus)
		}
		if status == http.StatusOK {
			return ""
		}
		return fmt.Sprintf("the accounts with the rights: got %d %s", status, body)
	})
	name := "system:serviceaccount:" + namespace + ":"
	for _, c := range []struct {
		method, path, token string
		status              int
		text                string
	}{
		{"GET", "/metrics", cleaner, http.StatusForbidden, name + "cleaner must not get"},
		{"GET", "/metrics", prometheus, http.StatusOK, ""},
		{"POST", clean, prometheus, http.StatusForbidden, ""},
		{"GET", "/api/v1/topics", f.token("nobody", audience), http.StatusForbidden, ""},
		// a token for the API server itself, which every pod has, and a token for another LogCluster
		{"POST", clean, f.token("cleaner", ""),
			http.StatusUnauthorized, ""},
		{"POST", clean, f.token("cleaner", v1alpha1.ServiceAccountAudience(namespace, "other")),
			http.StatusUnauthorized, ""},
		{"POST", clean, cleaner[:len(cleaner)-8] + "AAAAAAAA", http.StatusUnauthorized, ""},
	} {
		status, body := send(c.method, c.path, c.token)
		if status != c.status || !strings.Contains(body, c.text) {
			t.Errorf("%s %s: got %d %s, want %d", c.method, c.path, status, body, c.status)
		}
	}
	testFilter(f, config)
	// A right applies only to this LogCluster in this namespace.
	other, err := New(own, namespace, "other")
	if err != nil {
		t.Fatal(err)
	}
	if allowed, err := other.Review(t.Context(), name+"cleaner", access.CleanTopics); allowed ||
		err != nil {
		t.Errorf("right on another LogCluster: %t, %v", allowed, err)
	}
	elsewhere, err := New(own, "default", "demo")
	if err != nil {
		t.Fatal(err)
	}
	if allowed, err := elsewhere.Review(t.Context(), name+"cleaner", access.CleanTopics); allowed ||
		err == nil {
		t.Errorf("the broker has asked about another namespace: %t, %v", allowed, err)
	}
}

func TestOnlyServiceAccountsHaveRights(t *testing.T) {
	groups, ok := groupsOf("system:serviceaccount:logs:prometheus")
	if want := []string{"system:serviceaccounts", "system:serviceaccounts:logs",
		"system:authenticated"}; !ok || !slices.Equal(groups, want) {
		t.Errorf("got %v, %t", groups, ok)
	}
	for _, user := range []string{"", "admin", "system:admin", "system:serviceaccount:",
		"system:serviceaccount:logs", "system:serviceaccount:logs:", "system:serviceaccount::x",
		"system:serviceaccount:a:b:c", "system:masters"} {
		if groups, ok := groupsOf(user); ok {
			t.Errorf("user %q has groups %s", user, fmt.Sprint(groups))
		}
	}
}

// testFilter checks that Filter admits requests to the operator's metrics with tokens for the API
// server.
func testFilter(f *fixture, config *rest.Config) {
	t := f.t
	_, err := f.all.RbacV1().ClusterRoles().Create(t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
			Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"},
				Verbs: []string{"get"}}}}, metav1.CreateOptions{})
	if err == nil {
		_, err = f.all.RbacV1().ClusterRoleBindings().Create(t.Context(),
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
					Name: "metrics-reader"},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "prometheus",
					Namespace: f.namespace}}}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	filter, err := NewFilter(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := filter(logr.Discard(), http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	if err != nil {
		t.Fatal(err)
	}
	send := func(path, authorization string) int {
		request := httptest.NewRequestWithContext(t.Context(), "GET", path, http.NoBody)
		request.Header.Set("Authorization", authorization)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		return answer.Code
	}
	reader := "Bearer " + f.token("prometheus", "")
	await.Until(t, "the account with the right reads the metrics", func() bool {
		return send("/metrics", reader) == http.StatusOK
	})
	for _, c := range []struct {
		path, authorization string
		status              int
	}{
		{"/metrics", "", http.StatusUnauthorized},
		{"/metrics", "Basic YWJj", http.StatusUnauthorized},
		{"/metrics", "Bearer abc", http.StatusUnauthorized},
		{"/metrics", "Bearer " + f.token("nobody", ""), http.StatusForbidden},
		{"/metrics", "Bearer " + f.token("prometheus", "other"), http.StatusUnauthorized},
		{"/debug/pprof/heap", reader, http.StatusForbidden},
	} {
		if status := send(c.path, c.authorization); status != c.status {
			t.Errorf("%s with %q: got %d, want %d", c.path, c.authorization[:min(9,
				len(c.authorization))], status, c.status)
		}
	}
}
