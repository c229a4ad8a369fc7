package kube

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/console"
	"heartwood.dev/heartwood/internal/remote"
	"heartwood.dev/heartwood/test/kit/envtest"
	"heartwood.dev/heartwood/test/kit/fakeapi"
)

// fixture is a namespace on a real API server. Its configuration has all rights.
type fixture struct {
	t         *testing.T
	config    *rest.Config
	api       client.Client
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, config: envtest.Start(t)}
	scheme := fakeapi.Scheme(t)
	var err error
	if f.api, err = client.New(f.config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	if f.namespace, err = envtest.Namespace(t.Context(), f.config); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) create(object client.Object) {
	f.t.Helper()
	object.SetNamespace(f.namespace)
	if err := f.api.Create(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
}

// account creates a ServiceAccount and grants it the rules in the namespace.
func (f *fixture) account(name string, rules ...rbacv1.PolicyRule) {
	f.t.Helper()
	objectMeta := metav1.ObjectMeta{Name: name}
	f.create(&corev1.ServiceAccount{ObjectMeta: objectMeta})
	f.create(&rbacv1.Role{ObjectMeta: objectMeta, Rules: rules})
	f.create(&rbacv1.RoleBinding{ObjectMeta: objectMeta,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name,
			Namespace: f.namespace}}})
	if len(rules) > 0 {
		envtest.AwaitRule(f.t, f.config, "system:serviceaccount:"+f.namespace+":"+name, f.namespace,
			&rules[0])
	}
}

// token returns a ServiceAccount's token. Without an audience, the token's audience is the API
// server.
func (f *fixture) token(account string, audience ...string) string {
	f.t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: audience, ExpirationSeconds: new(int64(600))}}
	serviceAccount := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account,
		Namespace: f.namespace}}
	if err := f.api.SubResource("token").Create(f.t.Context(), serviceAccount, request); err != nil {
		f.t.Fatal(err)
	}
	return request.Status.Token
}

func rule(verb, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"heartwood.dev"}, Resources: []string{resource},
		Verbs: []string{verb}, ResourceNames: names}
}

// TestUsersActWithTheirOwnRights checks that users get exactly the rights that RBAC grants to their
// tokens, although the configuration of the site itself has all rights.
func TestUsersActWithTheirOwnRights(t *testing.T) {
	f := newFixture(t)
	f.account("nobody")
	f.account("viewer", rule("get", "logclusters/report", "main"))
	f.account("reader", rule("get", "logclusters/report"), rule("get", "logclusters/records", "main"))
	f.account("cleaner", rule("get", "logclusters/report"), rule("list", "topics"),
		rule("patch", "topics"))
	f.account("partial", rule("get", "logclusters/report"), rule("list", "topics"),
		rule("patch", "topics", "other"))
	f.account("writer", rule("create", "logclusters/records", "main"),
		rule("update", "logclusters/groups"), rule("create", "logclusters/abort"),
		rule("list", "logusers"))
	f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "main"}})
	for name, kafka := range map[string]string{"tickets": "", "other": "Other_Topic"} {
		topic := &v1alpha1.Topic{ObjectMeta: metav1.ObjectMeta{Name: name}}
		topic.Spec.Cluster, topic.Spec.TopicName = "main", kafka
		f.create(topic)
	}
	authority, err := NewAuthority(f.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("rights", func(t *testing.T) { f.checkRights(t, authority) })
	t.Run("names", func(t *testing.T) { f.checkNames(t, authority) })
	t.Run("writes", func(t *testing.T) { f.checkWrites(t, authority) })
	t.Run("users", func(t *testing.T) { f.checkUsers(t, authority) })
	t.Run("clean", func(t *testing.T) { f.checkClean(t, authority) })
	t.Run("site", func(t *testing.T) { f.checkSite(t, authority) })
}

func (f *fixture) checkRights(t *testing.T, authority *Authority) {
	main := console.ClusterName{Namespace: f.namespace, Name: "main"}
	// rights: get the report; read records; clean; get another LogCluster's report; clean some topics
	for user, want := range map[string][5]bool{
		"nobody": {}, "viewer": {0: true}, "reader": {true, true, false, true, false},
		"cleaner": {true, false, true, true, false}, "partial": {true, false, false, true, true},
	} {
		token := f.token(user)
		for i, question := range []struct {
			cluster console.ClusterName
			right   console.Right
		}{{main, console.ReadReport}, {main, console.ReadRecords}, {main, console.Clean},
			{console.ClusterName{Namespace: f.namespace, Name: "second"}, console.ReadReport},
			{main, console.CleanSome}} {
			got, err := authority.May(t.Context(), token, question.cluster, question.right)
			if err != nil || got != want[i] {
				t.Errorf("%s, right %d: got %t, %v, want %t", user, i, got, err, want[i])
			}
		}
	}
}

// checkWrites checks that each change needs its own right, which no right to read includes.
func (f *fixture) checkWrites(t *testing.T, authority *Authority) {
	cluster := console.ClusterName{Namespace: f.namespace, Name: "main"}
	for _, right := range []console.Right{console.WriteRecords, console.WriteGroups, console.Abort,
		console.ListUsers} {
		for user, want := range map[string]bool{"writer": true, "reader": false, "cleaner": false} {
			got, err := authority.May(t.Context(), f.token(user), cluster, right)
			if err != nil || got != want {
				t.Errorf("%s, right %d: got %t, %v, want %t", user, right, got, err, want)
			}
		}
	}
	other := console.ClusterName{Namespace: f.namespace, Name: "second"}
	if got, err := authority.May(t.Context(), f.token("writer"), other,
		console.WriteRecords); got || err != nil {
		t.Errorf("records of another LogCluster: got %t, %v", got, err)
	}
}

// checkUsers checks that the LogCluster's LogUsers are listed with the user's token.
func (f *fixture) checkUsers(t *testing.T, authority *Authority) {
	found := console.ClusterName{Namespace: f.namespace, Name: "main"}
	for name, cluster := range map[string]string{"orders": "main", "app": "main",
		"else": "second"} {
		user := &v1alpha1.LogUser{ObjectMeta: metav1.ObjectMeta{Name: name}}
		user.Spec.Cluster = cluster
		f.create(user)
	}
	got, err := authority.LogUsers(t.Context(), f.token("writer"), found)
	if err != nil || len(got) != 2 {
		t.Fatalf("got %+v, %v, want two LogUsers", got, err)
	}
	if got[0].Name != "app" || got[1].Principal != "User:orders" {
		t.Errorf("got %+v, want app and User:orders", got)
	}
	if got[0].Ready || got[0].Authentication != "External" {
		t.Errorf("got %+v, want External, not ready", got[0])
	}
	if _, err := authority.LogUsers(t.Context(), f.token("reader"), found); !errors.Is(err,
		console.ErrForbidden) {
		t.Errorf("without the right: got %v", err)
	}
	if _, err := authority.LogUsers(t.Context(), "", found); !errors.Is(err, console.ErrToken) {
		t.Errorf("without a token: got %v", err)
	}
}

// checkNames checks that only a token for the API server identifies a user. The console's own
// configuration contains a client certificate, whose rights no request may use.
func (f *fixture) checkNames(t *testing.T, authority *Authority) {
	name, err := authority.User(t.Context(), f.token("viewer"))
	if want := "system:serviceaccount:" + f.namespace + ":viewer"; name != want || err != nil {
		t.Errorf("got %q, %v, want %q", name, err, want)
	}
	cluster := console.ClusterName{Namespace: f.namespace, Name: "main"}
	for _, token := range []string{"", "a.b.c", "-",
		f.token("cleaner", v1alpha1.ServiceAccountAudience(f.namespace, "main"))} {
		if name, err := authority.User(t.Context(), token); !errors.Is(err, console.ErrToken) {
			t.Errorf("token %.10q: got user %q, %v, want ErrToken", token, name, err)
		}
		may, err := authority.May(t.Context(), token, cluster, console.ReadReport)
		if may || !errors.Is(err, console.ErrToken) {
			t.Errorf("token %.10q: got %t, %v, want ErrToken", token, may, err)
		}
		if err := authority.Clean(t.Context(), token, cluster, "tickets"); !errors.Is(err,
			console.ErrToken) {
			t.Errorf("token %.10q: clean: got %v, want ErrToken", token, err)
		}
	}
}

func (f *fixture) checkClean(t *testing.T, authority *Authority) {
	cluster := console.ClusterName{Namespace: f.namespace, Name: "main"}
	for _, test := range []struct {
		user, topic, resource string
		may                   bool
	}{{"cleaner", "tickets", "tickets", true}, {"reader", "tickets", "tickets", false},
		{"partial", "tickets", "tickets", false}, {"partial", "Other_Topic", "other", true},
		{"cleaner", "other", "other", false}} {
		before := f.requested(t, test.resource)
		err := authority.Clean(t.Context(), f.token(test.user), cluster, test.topic)
		if err != nil && !strings.Contains(err.Error(), "system:serviceaccount:") &&
			!strings.Contains(err.Error(), "has no Topic") {
			t.Errorf("%+v: the error does not say who may not do what: %v", test, err)
		}
		if (err == nil) != test.may || (f.requested(t, test.resource) != before) != test.may {
			t.Errorf("%+v: got %v, and a request: %t", test, err,
				f.requested(t, test.resource) != before)
		}
	}
}

// requested returns the value of the last request to clean a Topic.
func (f *fixture) requested(t *testing.T, topic string) string {
	t.Helper()
	var found v1alpha1.Topic
	if err := f.api.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: topic},
		&found); err != nil {
		t.Fatal(err)
	}
	return found.Annotations[v1alpha1.AnnotationCleanNow]
}

// checkSite uses the site as a browser would: it logs in, requests a page, and requests a clean.
func (f *fixture) checkSite(t *testing.T, authority *Authority) {
	main := console.ClusterName{Namespace: f.namespace, Name: "main"}
	site := console.NewSite(console.SiteOptions{Authority: authority,
		List: func(context.Context) ([]console.Cluster, error) {
			return []console.Cluster{{ClusterName: main}}, nil
		},
		Connect: func(console.Cluster) (console.Connection, error) {
			return console.Connection{Fleet: remote.NewFleet(&remote.Client{},
				[]string{"127.0.0.1:1"}, false)}, nil
		}})
	defer site.Close()
	server := httptest.NewServer(site)
	defer server.Close()
	pages := "/clusters/" + main.String() + "/"
	for user, want := range map[string][3]int{ // status of: pages, records, clean
		"nobody": {403, 403, 403}, "viewer": {200, 403, 403}, "reader": {200, 501, 403},
		"cleaner": {200, 403, 303}} {
		token := f.token(user)
		cookie := login(t, server.URL, token)
		for i, request := range []struct{ method, path, form string }{
			{"GET", pages + "topics", ""},
			{"GET", pages + "message?topic=tickets&partition=0&offset=0", ""},
			{"POST", pages + "clean", "topic=tickets"}} {
			status, _ := send(t, request.method, server.URL+request.path, request.form, "Cookie",
				cookie)
			if status != want[i] {
				t.Errorf("%s: %s %s: got status %d, want %d", user, request.method, request.path,
					status, want[i])
			}
		}
	}
}

// login submits the login form and returns the cookie.
func login(t *testing.T, server, token string) string {
	t.Helper()
	status, cookies := send(t, "POST", server+"/login", url.Values{"token": {token}}.Encode())
	if len(cookies) != 1 {
		t.Fatalf("login: got status %d", status)
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

// send sends a request without following redirects, and returns the status and the cookies.
func send(t *testing.T, method, target, form string, headers ...string) (int, []*http.Cookie) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode, response.Cookies()
}
