package convert

import (
	"slices"
	"testing"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// withListener returns a Kafka with one listener, which has the given fields.
func withListener(fields map[string]any) map[string]any {
	listener := map[string]any{"name": "only", "port": int64(9092), "type": "internal", "tls": true}
	for name, value := range fields {
		listener[name] = value
	}
	return map[string]any{"apiVersion": group + "/v1", "kind": "Kafka",
		"metadata": map[string]any{"name": "main"},
		"spec": map[string]any{"kafka": map[string]any{"replicas": int64(3),
			"storage":   map[string]any{"type": "persistent-claim", "size": "10Gi"},
			"listeners": []any{listener}}}}
}

func convertedCluster(t *testing.T, content map[string]any) (*v1alpha1.LogCluster, []Remark) {
	t.Helper()
	documents, err := Strimzi([]map[string]any{content})
	if err != nil {
		t.Fatal(err)
	}
	return documents[0].Object.(*v1alpha1.LogCluster), Lost(documents)
}

// closed reports whether a cluster has only the listener that replaces all others: a LogCluster
// without listeners has one without authentication.
func closed(cluster *v1alpha1.LogCluster) bool {
	all := cluster.Spec.Listeners
	return len(all) == 1 && all[0].TLS != nil && len(all[0].Authentication) == 1 &&
		all[0].Authentication[0].Type == v1alpha1.AuthenticationScramSha512
}

// oauth returns an authentication that has a counterpart, with a further field.
func oauth(field string, value any) map[string]any {
	return map[string]any{"type": "oauth", "validIssuerUri": "https://id.example.com",
		"jwksEndpointUri": "https://id.example.com/certs", "checkAudience": true,
		"clientId": "kafka", field: value}
}

// TestNoListenerBecomesOpen converts listeners whose restrictions have no counterpart.
func TestNoListenerBecomesOpen(t *testing.T) {
	blocks := []any{map[string]any{"ipBlock": map[string]any{"cidr": "10.0.0.0/8"}}}
	for name, fields := range map[string]map[string]any{
		"unknown type":           {"type": "ingress"},
		"unknown authentication": {"authentication": map[string]any{"type": "custom"}},
		"empty authentication":   {"authentication": map[string]any{}},
		"authentication is text": {"authentication": "tls"},
		"no type":                {"authentication": map[string]any{"sasl": true}},
		"tls is neither":         {"tls": "yes"},
		"peers are text":         {"networkPolicyPeers": "all"},
		"a peer is text":         {"networkPolicyPeers": []any{"10.0.0.0/8"}},
		"a check of tokens":      {"authentication": oauth("customClaimCheck", "@.admin == true")},
		"a prefix of principals": {"authentication": oauth("userNamePrefix", "sso-")},
		"PLAIN only":             {"authentication": oauth("enableOauthBearer", false)},
		"an unusable CA":         {"authentication": oauth("tlsTrustedCertificates", []any{"ca"})},
		"ranges are an object":   {"configuration": ranges(map[string]any{"a": "10.0.0.0/8"})},
		"ranges as well as peers": {"configuration": ranges([]any{"10.0.0.0/8"}),
			"networkPolicyPeers": blocks},
	} {
		t.Run(name, func(t *testing.T) {
			got, lost := convertedCluster(t, withListener(fields))
			if !closed(got) || len(lost) == 0 {
				t.Errorf("got listeners %+v, losses %v", got.Spec.Listeners, lost)
			}
		})
	}
}

func ranges(value any) map[string]any { return map[string]any{"loadBalancerSourceRanges": value} }

// TestRangesOfLoadBalancersAreALoss checks the remark: the ranges depend on the network plugin.
func TestRangesOfLoadBalancersAreALoss(t *testing.T) {
	got, lost := convertedCluster(t, withListener(map[string]any{"type": "loadbalancer",
		"configuration": ranges([]any{"10.0.0.0/8"})}))
	from := got.Spec.Listeners[0].AllowFrom
	if len(from) != 1 || from[0].CIDR != "10.0.0.0/8" || len(lost) != 1 {
		t.Errorf("got sources %+v, losses %v", from, lost)
	}
}

// TestTuningOfTokensIsNoCheck checks that fields that do not decide about tokens do not remove the
// listener.
func TestTuningOfTokensIsNoCheck(t *testing.T) {
	got, lost := convertedCluster(t, withListener(map[string]any{
		"authentication": oauth("jwksRefreshSeconds", int64(300))}))
	auth := got.Spec.Listeners[0].Authentication
	if len(auth) != 1 || auth[0].Type != v1alpha1.AuthenticationOAuthBearer || len(lost) != 1 {
		t.Errorf("got %+v, losses %v", auth, lost)
	}
}

// TestSuperUsersKeepTheirNames checks that a super user is the same principal as before. Only a
// distinguished name that clientsCARule maps changes.
func TestSuperUsersKeepTheirNames(t *testing.T) {
	content := withListener(nil)
	place(content, "spec.kafka")["authorization"] = map[string]any{"type": "simple",
		"superUsers": []any{"alice", "CN=bob", "CN=carol,O=example", "User:dave"}}
	got, _ := convertedCluster(t, content)
	want := []string{"alice", "bob", "CN=carol,O=example", "User:dave"}
	if !slices.Equal(got.Spec.Authorization.SuperUsers, want) {
		t.Errorf("got %q, want %q", got.Spec.Authorization.SuperUsers, want)
	}
}

// TestUnknownAuthorizationAllowsNothing checks that a cluster with authorization keeps it.
func TestUnknownAuthorizationAllowsNothing(t *testing.T) {
	for _, authorization := range []any{map[string]any{}, "simple", map[string]any{"type": "opa"}} {
		content := withListener(nil)
		place(content, "spec.kafka")["authorization"] = authorization
		got, lost := convertedCluster(t, content)
		if a := got.Spec.Authorization; a == nil || a.Type != v1alpha1.AuthorizationSimple ||
			len(lost) == 0 {
			t.Errorf("%v: got %+v, losses %v", authorization, a, lost)
		}
	}
}

// TestBrokersAuthenticateEachOther checks a cluster whose clients have no TLS: the connections
// between Strimzi's brokers have it.
func TestBrokersAuthenticateEachOther(t *testing.T) {
	got, lost := convertedCluster(t, withListener(map[string]any{"tls": false}))
	if !got.Spec.Secured() || len(lost) != 0 {
		t.Errorf("got peers %q, losses %v", got.Spec.Peers, lost)
	}
}

// TestTokensCanMeanOwnersOfCertificates checks the remark: in Strimzi, a token of NAME and a
// certificate of CN=NAME are different principals.
func TestTokensCanMeanOwnersOfCertificates(t *testing.T) {
	content := withListener(map[string]any{"authentication": map[string]any{"type": "tls"}})
	if _, lost := convertedCluster(t, content); len(lost) != 0 {
		t.Errorf("certificates only: got losses %v", lost)
	}
	kafka := place(content, "spec.kafka")
	kafka["listeners"] = append(kafka["listeners"].([]any), map[string]any{"name": "tokens",
		"port": int64(9093), "type": "internal", "tls": true,
		"authentication": oauth("jwksRefreshSeconds", nil)})
	if _, lost := convertedCluster(t, content); len(lost) != 1 {
		t.Errorf("certificates and tokens: got losses %v", lost)
	}
}
