package convert

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// clientsCARule maps the distinguished name in a certificate of Strimzi's clients CA to the name of
// the KafkaUser. The second rule leaves other names as they are.
const clientsCARule = "RULE:" + clientsCAPattern + "/$1/"

const clientsCAPattern = "^CN=([^,=+]+)$"

// clientsCAName does the same with the distinguished names of super users.
var clientsCAName = regexp.MustCompile(clientsCAPattern)

var listenerTypes = map[string]v1alpha1.ListenerType{
	"internal": v1alpha1.ListenerInternal, "cluster-ip": v1alpha1.ListenerInternal,
	"nodeport": v1alpha1.ListenerNodePort, "loadbalancer": v1alpha1.ListenerLoadBalancer,
	"route": v1alpha1.ListenerTLSRoute}

func (c *cluster) listeners(kafka *source) {
	for _, s := range kafka.items("listeners") {
		c.listener(s)
	}
	if c.authenticates(v1alpha1.AuthenticationTLS) &&
		c.authenticates(v1alpha1.AuthenticationOAuthBearer) {
		c.lost("spec.kafka.listeners", "a token of NAME becomes the same principal as a certificate of"+
			" CN=NAME, and gets its ACLs: check that the issuer gives out no names of KafkaUsers, or"+
			" remove principalRules and set userName: CN=NAME of their LogUsers")
	}
	if len(c.to.Spec.Listeners) > 0 {
		return
	}
	c.to.Spec.Listeners = v1alpha1.Listeners{{Name: v1alpha1.DefaultListenerName,
		Port: v1alpha1.DefaultListenerPort, Type: v1alpha1.ListenerInternal,
		TLS: &v1alpha1.ListenerTLS{}, Authentication: []v1alpha1.Authentication{{
			Type: v1alpha1.AuthenticationScramSha512}}}}
	c.lost("spec.kafka.listeners", "no listener could be converted. Without spec.listeners, a"+
		" LogCluster has a listener without authentication, so it got one with tls and ScramSha512:"+
		" write the listeners that clients need")
}

// authenticates reports whether a converted listener has a type of authentication.
func (c *cluster) authenticates(kind v1alpha1.AuthenticationType) bool {
	for _, listener := range c.to.Spec.Listeners {
		for _, authentication := range listener.Authentication {
			if authentication.Type == kind {
				return true
			}
		}
	}
	return false
}

// listener adds a listener, unless it would admit more clients than before.
func (c *cluster) listener(s *source) {
	kind := s.text("type")
	to := v1alpha1.Listener{Name: s.text("name"), Type: listenerTypes[kind]}
	if port, ok := s.number("port", 1, 65535); ok {
		to.Port = int32(port)
	}
	if s.flag("tls") {
		to.TLS = &v1alpha1.ListenerTLS{}
	}
	authenticated := c.authentication(s, &to)
	restricted := c.configuration(s.child("configuration"), &to)
	restricted = c.peers(s, &to) && restricted
	switch {
	case to.Type == "":
		c.lost(s.at("type"), "listeners of type %q are not supported; the listener was left out", kind)
	case s.has("tls") && !s.read["tls"]:
		c.lost(s.path, "the listener was left out, because tls is neither true nor false")
	case !authenticated:
		c.lost(s.path, "the listener was left out, because without authentication it would be open")
	case !restricted:
		c.lost(s.path, "the listener was left out, because without these sources it would be open")
	case to.Type == v1alpha1.ListenerTLSRoute:
		c.route(s, to)
	default:
		c.to.Spec.Listeners = append(c.to.Spec.Listeners, to)
	}
}

// route adds a listener of type route. A TLSRoute needs TLS and the host name of each broker.
func (c *cluster) route(s *source, to v1alpha1.Listener) {
	host := pattern(c.hosts[to.Name])
	if host == "" || to.TLS == nil {
		c.lost(s.path, "type TLSRoute needs tls, and one pattern for the brokers' host names that"+
			" contains the broker's id: add the listener with advertised.host and gateway")
		return
	}
	to.Advertised = &v1alpha1.Advertised{Host: host}
	c.lost(s.at("type"), "OpenShift's Route becomes a TLSRoute of the Gateway API: set gateway, or"+
		" route each host to its Service")
	c.to.Spec.Listeners = append(c.to.Spec.Listeners, to)
}

// authentication reports whether the clients of the listener are authenticated as in the source. It
// is false if that is not possible.
func (c *cluster) authentication(listener *source, to *v1alpha1.Listener) bool {
	if !listener.has("authentication") {
		return true
	}
	s := listener.child("authentication")
	var auth v1alpha1.Authentication
	switch kind := s.text("type"); kind {
	case "scram-sha-512":
		auth.Type = v1alpha1.AuthenticationScramSha512
	case "tls":
		auth = v1alpha1.Authentication{Type: v1alpha1.AuthenticationTLS,
			PrincipalRules: []string{clientsCARule, "DEFAULT"},
			ClientCAs: []v1alpha1.SecretKey{{Name: c.to.Name + "-clients-ca-cert",
				Key: "ca.crt"}}}
	case "oauth":
		oauth := c.oauth(s)
		if oauth == nil {
			return false
		}
		auth = v1alpha1.Authentication{Type: v1alpha1.AuthenticationOAuthBearer, OAuth: oauth}
	default:
		c.lost(s.at("type"), "authentication of type %q is not supported", kind)
		s.skip(fieldsOf(s)...)
		return false
	}
	if auth.Type != v1alpha1.AuthenticationScramSha512 && to.TLS == nil {
		c.lost(s.at("type"), "needs tls on the listener")
		return false
	}
	to.Authentication = []v1alpha1.Authentication{auth}
	if seconds, ok := s.number("maxSecondsWithoutReauthentication", 60, 86400); ok {
		to.MaxReauth = &metav1.Duration{Duration: time.Duration(seconds) * time.Second}
	}
	return true
}

// oauthTuning contains the fields of oauth without which no token is accepted that was refused
// before, and without which no token means another principal.
var oauthTuning = []string{"checkAccessTokenType", "checkIssuer", "clientAudience", "clientScope",
	"clientSecret", "connectTimeoutSeconds", "disableTlsHostnameVerification", "enableMetrics",
	"enablePlain", "failFast", "fallbackUserNameClaim", "fallbackUserNamePrefix", "groupsClaim",
	"groupsClaimDelimiter", "httpRetries", "httpRetryPauseMs", "includeAcceptHeader",
	"jwksExpirySeconds", "jwksIgnoreKeyUse", "jwksMinRefreshPauseSeconds", "jwksRefreshSeconds",
	"maxSecondsWithoutReauthentication", "readTimeoutSeconds", "tokenEndpointUri"}

// oauth converts the validation of signed tokens. It returns nil if the brokers could not validate
// tokens as before.
func (c *cluster) oauth(s *source) *v1alpha1.OAuth {
	to := &v1alpha1.OAuth{Issuer: s.text("validIssuerUri"), JWKSURL: s.text("jwksEndpointUri"),
		PrincipalClaim: s.text("userNameClaim")}
	if s.flag("checkAudience") {
		to.Audience = s.text("clientId")
	}
	if cas := s.items("tlsTrustedCertificates"); len(cas) == 1 && cas[0].has("certificate") {
		to.CA = &v1alpha1.SecretKey{Name: cas[0].text("secretName"),
			Key: cas[0].text("certificate")}
	}
	if to.Issuer == "" || to.JWKSURL == "" || to.Audience == "" {
		c.lost(s.path, "OAuthBearer needs validIssuerUri, jwksEndpointUri, and checkAudience with"+
			" clientId (the expected audience)")
		s.skip(fieldsOf(s)...)
		return nil
	}
	s.flag("enableOauthBearer")
	for _, field := range slices.Sorted(maps.Keys(s.content)) {
		unknown := !s.read[field] && !slices.Contains(oauthTuning, field)
		if unknown || field == "enableOauthBearer" && !s.flag(field) {
			s.skip(field)
			c.lost(s.at(field), "OAuthBearer has no such check or name of the principal")
			return nil
		}
	}
	return to
}

// configuration converts the fields of a listener's configuration that have a counterpart. It
// reports whether the load balancers admit no more clients than before.
func (c *cluster) configuration(s *source, to *v1alpha1.Listener) bool {
	if certificate := s.child("brokerCertChainAndKey"); certificate.has("secretName") {
		c.certificate(certificate, to)
	}
	if n, ok := s.number("maxConnections", 1, 1000000); ok {
		to.MaxConnections = new(int32(n))
	}
	hosts := map[string]string{}
	for _, broker := range s.items("brokers") {
		id := broker.text("broker")
		if host := broker.text("advertisedHost"); host != "" {
			hosts[id] = host
		} else if host := broker.text("host"); host != "" {
			hosts[id] = host
		}
	}
	c.hosts[to.Name] = hosts
	if host := pattern(hosts); host != "" && to.Type != v1alpha1.ListenerTLSRoute {
		to.Advertised = &v1alpha1.Advertised{Host: host}
	} else if len(hosts) > 0 && host == "" {
		c.lost(s.at("brokers"), "the brokers' host names have no common pattern with the broker's id:"+
			" set advertised.host")
	}
	return c.ranges(s, to)
}

// ranges converts the sources that the load balancers admit.
func (c *cluster) ranges(s *source, to *v1alpha1.Listener) bool {
	const field = "loadBalancerSourceRanges"
	if empty(s.content[field]) {
		return true
	}
	for _, cidr := range s.texts(field) {
		to.AllowFrom = append(to.AllowFrom, v1alpha1.NetworkSource{CIDR: cidr})
	}
	if len(to.AllowFrom) > 0 {
		c.lost(s.at(field), "the NetworkPolicy of the brokers admits these sources (allowFrom), and not"+
			" the load balancers: the network plugin must enforce NetworkPolicies")
	}
	return len(to.AllowFrom) > 0
}

func (c *cluster) certificate(s *source, to *v1alpha1.Listener) {
	certificate, key := s.text("certificate"), s.text("key")
	if to.TLS != nil && certificate == "tls.crt" && key == "tls.key" {
		to.TLS.SecretName = s.text("secretName")
		return
	}
	s.skip("secretName")
	c.lost(s.path, "the Secret needs the keys tls.crt, tls.key and ca.crt: make such a copy, and set"+
		" tls.secretName; until then the operator issues the certificate")
}

// pattern returns the host name of which the names of all brokers are instances, with {id} in place
// of the broker's id, or "".
func pattern(hosts map[string]string) (common string) {
	for id, host := range hosts {
		if id == "" || strings.Count(host, id) != 1 {
			return ""
		}
		host = strings.Replace(host, id, "{id}", 1)
		if common != "" && common != host {
			return ""
		}
		common = host
	}
	return common
}

// peers converts the sources of a NetworkPolicy. A source with another field is left out, because
// it would admit more clients than before. The result is false if no source is left, or if the load
// balancers have sources too: a client had to be among both.
func (c *cluster) peers(s *source, to *v1alpha1.Listener) bool {
	const field = "networkPolicyPeers"
	if empty(s.content[field]) {
		return true
	}
	peers := s.items(field)
	kept, balanced := 0, len(to.AllowFrom) > 0
	for _, peer := range peers {
		var from v1alpha1.NetworkSource
		from.CIDR = peer.child("ipBlock").text("cidr")
		for field, selector := range map[string]**metav1.LabelSelector{
			"namespaceSelector": &from.NamespaceSelector, "podSelector": &from.PodSelector} {
			if decoded := new(metav1.LabelSelector); peer.decode(field, decoded) {
				*selector = decoded
			}
		}
		if len(peer.unread()) > 0 || from == (v1alpha1.NetworkSource{}) {
			c.lost(peer.path, "the source has unknown parts, so it was left out: its clients are not"+
				" admitted")
			continue
		}
		to.AllowFrom = append(to.AllowFrom, from)
		kept++
	}
	if balanced {
		c.lost(s.at(field), "a client had to be among these and loadBalancerSourceRanges: set allowFrom"+
			" to the sources that are in both")
	}
	return kept > 0 && !balanced
}

func fieldsOf(s *source) (names []string) {
	for name := range s.content {
		names = append(names, name)
	}
	return names
}
