package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/console"
)

func core(verb, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource},
		Verbs: []string{verb}, ResourceNames: names}
}

// TestClustersWithTheRightsOfTheChart checks that a ServiceAccount with the chart's rules can
// connect to the LogClusters in console.clusters, but to no others.
func TestClustersWithTheRightsOfTheChart(t *testing.T) {
	f := newFixture(t)
	f.account("console", rule("get", "logclusters"), rule("list", "logclusters"),
		core("create", "serviceaccounts/token", "console"),
		core("get", "secrets", "safe-ca-cert", "reader-logcluster"))
	f.create(&v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: "plain"}})
	for name, way := range map[string]v1alpha1.Authentication{
		"safe":   {Type: v1alpha1.AuthenticationScramSha512},
		"other":  {Type: v1alpha1.AuthenticationScramSha512},
		"tokens": {Type: v1alpha1.AuthenticationOAuthBearer, OAuth: &v1alpha1.OAuth{ServiceAccounts: true}},
	} {
		cluster := &v1alpha1.LogCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		cluster.Spec.Listeners = v1alpha1.Listeners{{Name: "tls", Port: 9093,
			TLS: &v1alpha1.ListenerTLS{}, Authentication: []v1alpha1.Authentication{way}}}
		f.create(cluster)
	}
	for name, data := range map[string]map[string][]byte{
		"safe-ca-cert":      {"peer-ca.crt": []byte("peers"), "ca.crt": []byte("listeners")},
		"reader-logcluster": {"username": []byte("reader"), "password": []byte("hunter2")},
		"admin-logcluster":  {"username": []byte("admin"), "password": []byte("hunter2")},
	} {
		f.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data})
	}
	own := rest.AnonymousClientConfig(f.config)
	own.BearerToken = f.token("console")
	clusters, err := NewClusters(own, ClustersOptions{Namespaces: []string{f.namespace},
		LogUser: "reader",
		Account: client.ObjectKey{Namespace: f.namespace, Name: "console"}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := clusters.List(t.Context())
	if err != nil || len(all) != 4 {
		t.Fatalf("got %+v, %v", all, err)
	}
	for _, cluster := range all {
		if cluster.Secured != (cluster.Name != "plain") || cluster.Brokers == 0 || cluster.Version == "" {
			t.Errorf("got %+v", cluster)
		}
		if _, err := clusters.Connect(cluster); err != nil {
			t.Errorf("connect to %s: %v", cluster.Name, err)
		}
	}
	missing := console.ClusterName{Namespace: f.namespace, Name: "nothing"}
	if _, err := clusters.Connect(console.Cluster{ClusterName: missing}); err == nil {
		t.Error("connected to a LogCluster that does not exist")
	}
	f.checkLinks(t, clusters)
}

func (f *fixture) checkLinks(t *testing.T, clusters *Clusters) {
	t.Helper()
	for name, want := range map[string]struct{ ca, kafka string }{ // parts of the errors; "": no error
		"safe": {"", ""}, "plain": {"may not read Secret plain-ca-cert", ""},
		"other": {"may not read Secret other-ca-cert", ""},
		// This listener needs no Secret before the first connection.
		"tokens": {"may not read Secret tokens-ca-cert", ""},
	} {
		l := clusters.link(clusters.listed[console.ClusterName{Namespace: f.namespace, Name: name}])
		_, err := l.peerCA()
		check(t, name+": CA", err, want.ca)
		connection, err := l.kafka()
		check(t, name+": kafka", err, want.kafka)
		if connection != nil {
			connection.Close()
		}
		token, err := l.tokens(t.Context())
		if err != nil || token == "" {
			t.Errorf("%s: token: %v", name, err)
		}
		if again, err := l.tokens(t.Context()); again != token || err != nil {
			t.Errorf("%s: the token is not used again: %v", name, err)
		}
	}
	denied := clusters.o
	denied.LogUser, denied.Account.Name = "admin", "default"
	l := (&Clusters{o: denied, api: clusters.api}).link(clusters.listed[console.ClusterName{
		Namespace: f.namespace, Name: "safe"}])
	_, err := l.kafka()
	check(t, "another LogUser", err, "may not read Secret admin-logcluster")
	_, err = l.tokens(t.Context())
	check(t, "another account", err, "create a token of ServiceAccount")
}

// check fails the test unless the error contains the text want; "" means no error.
func check(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}
