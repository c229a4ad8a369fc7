package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultListenerName and DefaultListenerPort are the name and the port of the single listener of a
// LogCluster without spec.listeners.
const (
	DefaultListenerName = "kafka"
	DefaultListenerPort = 9092
)

// PeerPort and HTTPPort are ports of each broker that no listener can use.
const (
	PeerPort = 9091
	HTTPPort = 9644
)

// Listeners contains a LogCluster's listeners.
type Listeners []Listener

// OrDefault returns the listeners, or the default listener if there are none.
func (l Listeners) OrDefault() Listeners {
	if len(l) > 0 {
		return l
	}
	return Listeners{{Name: DefaultListenerName, Port: DefaultListenerPort, Type: ListenerInternal}}
}

// Authenticate reports whether any listener authenticates its clients.
func (l Listeners) Authenticate() bool {
	for i := range l {
		if len(l[i].Authentication) > 0 {
			return true
		}
	}
	return false
}

// ListenerType is the way in which clients reach a listener.
// +kubebuilder:validation:Enum=Internal;NodePort;LoadBalancer;TLSRoute
type ListenerType string

const (
	// ListenerInternal is for clients inside the Kubernetes cluster.
	ListenerInternal ListenerType = "Internal"
	// ListenerNodePort exposes each broker at a port of its node.
	ListenerNodePort ListenerType = "NodePort"
	// ListenerLoadBalancer exposes each broker by its own load balancer.
	ListenerLoadBalancer ListenerType = "LoadBalancer"
	// ListenerTLSRoute exposes each broker by a host name. A gateway selects the broker by the server
	// name (SNI) of the TLS connection.
	ListenerTLSRoute ListenerType = "TLSRoute"
)

// Listener is a port on which brokers accept connections of Kafka clients.
//
// +kubebuilder:validation:XValidation:rule="!(self.port in [9091, 9644])",fieldPath=".port",message="ports 9091 (connections between brokers) and 9644 (HTTP) are reserved: choose another port"
// +kubebuilder:validation:XValidation:rule="!(self.name in ['peers', 'http', 'broker', 'brokers', 'bootstrap'])",fieldPath=".name",message="the names peers, http, broker, brokers and bootstrap are reserved: choose another name"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'TLSRoute' || has(self.tls) && has(self.advertised) && has(self.advertised.host) && self.advertised.host.contains('{id}')",fieldPath=".type",message="type TLSRoute needs tls, and an advertised.host with {id}, such as b{id}.kafka.example.com: a gateway selects the broker by the server name of the TLS connection"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || has(self.type) && self.type == 'TLSRoute'",fieldPath=".gateway",message="gateway applies to type TLSRoute only"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || has(self.tls) || self.authentication.all(a, a.type in ['ScramSha256', 'ScramSha512'] && (!has(self.type) || self.type == 'Internal'))",fieldPath=".tls",message="only SCRAM on a listener of type Internal works without tls: add tls, as without it others could take over connections or tokens"
// +kubebuilder:validation:XValidation:rule="!has(self.authentication) || !self.authentication.exists(a, a.type == 'TLS') || self.authentication.size() == 1",fieldPath=".authentication",message="TLS excludes other types of authentication: make another listener for them"
// +kubebuilder:validation:XValidation:rule="!has(self.maxReauth) || has(self.authentication) && self.authentication.exists(a, a.type != 'TLS')",fieldPath=".maxReauth",message="maxReauth applies to SCRAM and OAuthBearer: remove it, or add such an authentication"
type Listener struct {
	// Name identifies the listener. It is part of the names of Services.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=12
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && !self.contains('--')",message="the name of a listener must begin with a letter and hold only lower-case letters, digits and single dashes"
	Name string `json:"name"`
	// Port is the port on which brokers listen.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// Type is the way in which clients reach the listener: Internal (inside the Kubernetes cluster),
	// NodePort (a port of each node), LoadBalancer (one load balancer for each broker) or TLSRoute (a
	// host name for each broker, by which a gateway forwards TLS connections).
	// +optional
	// +kubebuilder:default=Internal
	Type ListenerType `json:"type,omitempty"`
	// TLS encrypts the connections. Without secretName and issuerRef, the operator issues the brokers'
	// certificate with the cluster's own CA. Secret <cluster>-ca-cert contains the CA's certificate.
	// +optional
	TLS *ListenerTLS `json:"tls,omitempty"`
	// Authentication contains the ways in which clients can authenticate. Default: none; the principal
	// of every client is then User:ANONYMOUS.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Authentication []Authentication `json:"authentication,omitempty"`
	// Advertised is the address of each broker in metadata responses. A field that is not set is
	// determined from the type: the pod's host name, the node, or the load balancer.
	// +optional
	Advertised *Advertised `json:"advertised,omitempty"`
	// Gateway is the Gateway to which the operator attaches a TLSRoute for each broker, for type
	// TLSRoute. By default, the operator creates no routes; route each advertised host to the Service
	// <cluster>-<listener>-<id> by other means.
	// +optional
	Gateway *Gateway `json:"gateway,omitempty"`
	// MaxReauth is the time after which a client must authenticate again on its connection
	// (connections.max.reauth.ms), 1m to 24h. Default: no limit, except the lifetime of a token.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="write a duration of 1m to 24h, such as 1h"
	MaxReauth *metav1.Duration `json:"maxReauth,omitempty"`
	// MaxConnections is the listener's maximum number of connections on each broker (max.connections).
	// Default: no limit other than the file descriptors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxConnections *int32 `json:"maxConnections,omitempty"`
	// MaxAuthenticationFailures is the maximum number of failed authentications of a user from one
	// address in a minute, on each broker. After more failures, the broker rejects the user at this
	// address for 30 s, but serves other users and addresses. Clients that send no user name are
	// rejected by address after ten times as many failures. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxAuthenticationFailures *int32 `json:"maxAuthenticationFailures,omitempty"`
	// AllowFrom contains the sources from which the brokers' NetworkPolicy admits connections to the
	// listener. Default: all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	AllowFrom []NetworkSource `json:"allowFrom,omitempty"`
	// Annotations are added to the listener's Services, for example to configure load balancers or
	// DNS.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Gateway names a Gateway of the Gateway API (v1.5 or later) that has a TLS listener in mode
// Passthrough.
type Gateway struct {
	// Name is the name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace is the Gateway's namespace. Default: the namespace of the LogCluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// SectionName is the name of one of the Gateway's listeners. Default: every listener that admits
	// the routes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
}

// ListenerTLS is the certificate of a listener.
//
// +kubebuilder:validation:XValidation:rule="!has(self.secretName) || !has(self.issuerRef)",message="choose secretName or issuerRef, not both"
type ListenerTLS struct {
	// SecretName is the name of a Secret with the keys tls.crt, tls.key and ca.crt (all PEM). The
	// operator uses the certificate for all brokers, and uses a changed certificate immediately.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
	// IssuerRef is a cert-manager issuer. The operator creates a Certificate for the listener.
	// +optional
	IssuerRef *IssuerRef `json:"issuerRef,omitempty"`
}

// IssuerRef names a cert-manager issuer.
type IssuerRef struct {
	// Name is the issuer's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Kind is the issuer's kind, such as Issuer or ClusterIssuer.
	// +optional
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind,omitempty"`
	// Group is the issuer's API group.
	// +optional
	// +kubebuilder:default="cert-manager.io"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`
}

// AuthenticationType is a way in which clients authenticate.
// +kubebuilder:validation:Enum=ScramSha256;ScramSha512;TLS;OAuthBearer
type AuthenticationType string

const (
	// AuthenticationScramSha256 is SASL/SCRAM-SHA-256 with the password of a LogUser.
	AuthenticationScramSha256 AuthenticationType = "ScramSha256"
	// AuthenticationScramSha512 is SASL/SCRAM-SHA-512 with the password of a LogUser.
	AuthenticationScramSha512 AuthenticationType = "ScramSha512"
	// AuthenticationTLS is a client certificate.
	AuthenticationTLS AuthenticationType = "TLS"
	// AuthenticationOAuthBearer is SASL/OAUTHBEARER with a signed token.
	AuthenticationOAuthBearer AuthenticationType = "OAuthBearer" //nolint:gosec // no credential
)

// Authentication is one way in which clients authenticate.
//
// +kubebuilder:validation:XValidation:rule="self.type == 'TLS' || !has(self.clientCAs) && !has(self.principalRules)",message="clientCAs and principalRules apply to type TLS only"
// +kubebuilder:validation:XValidation:rule="self.type == 'OAuthBearer' || !has(self.oauth)",fieldPath=".oauth",message="oauth applies to type OAuthBearer only"
// +kubebuilder:validation:XValidation:rule="self.type != 'OAuthBearer' || has(self.oauth)",fieldPath=".oauth",message="type OAuthBearer needs oauth: it says whose tokens are accepted"
type Authentication struct {
	// Type is ScramSha256, ScramSha512, TLS or OAuthBearer.
	// +required
	Type AuthenticationType `json:"type"`
	// ClientCAs are the CAs that issue client certificates, for type TLS. Default: the cluster's users
	// CA, which issues the certificates of LogUsers; the principal is then the LogUser's name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	ClientCAs []SecretKey `json:"clientCAs,omitempty"`
	// PrincipalRules map the distinguished name in a certificate issued by clientCAs to the name of a
	// principal (ssl.principal.mapping.rules, KIP-371). The first matching rule applies. Default: the
	// whole distinguished name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=1024
	PrincipalRules []string `json:"principalRules,omitempty"`
	// OAuth specifies which tokens are accepted, for type OAuthBearer.
	// +optional
	OAuth *OAuth `json:"oauth,omitempty"`
}

// OAuth specifies which tokens are accepted.
// +kubebuilder:validation:XValidation:rule="!has(self.ca) || has(self.jwksURL)",fieldPath=".ca",message="ca applies to jwksURL only: remove it"
// +kubebuilder:validation:XValidation:rule="has(self.serviceAccounts) && self.serviceAccounts ? !has(self.issuer) && !has(self.jwksURL) && !has(self.audience) && !has(self.principalClaim) : has(self.issuer) && has(self.jwksURL) && has(self.audience)",message="set serviceAccounts alone, or issuer, jwksURL and audience"
type OAuth struct {
	// ServiceAccounts accepts tokens of ServiceAccounts of this Kubernetes cluster with the audience
	// heartwood/<namespace>/<name of the LogCluster>. The principal is
	// User:system:serviceaccount:<namespace>:<name>. A pod needs no Secret, because it can mount such
	// a token as a projected volume.
	// +optional
	ServiceAccounts bool `json:"serviceAccounts,omitempty"`
	// Issuer is the required value of a token's claim iss (sasl.oauthbearer.expected.issuer).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Issuer string `json:"issuer,omitempty"`
	// JWKSURL is the HTTPS URL of the issuer's keys (sasl.oauthbearer.jwks.endpoint.url).
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.startsWith('https://')",message="jwksURL must be an https URL"
	JWKSURL string `json:"jwksURL,omitempty"`
	// CA is the CA that issued the certificate of jwksURL's server, as PEM. Default: the public CAs.
	// +optional
	CA *SecretKey `json:"ca,omitempty"`
	// Audience is a value that a token's claim aud must contain (sasl.oauthbearer.expected.audience).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Audience string `json:"audience,omitempty"`
	// PrincipalClaim is the claim that contains the name of the principal
	// (sasl.oauthbearer.sub.claim.name). Default sub.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PrincipalClaim string `json:"principalClaim,omitempty"`
}

// SecretKey names a key of a Secret in the same namespace.
type SecretKey struct {
	// Name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key is the key of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// Advertised is the address of each broker in metadata responses.
type Advertised struct {
	// Host is the host name or IP address. The broker's id replaces {id} in this value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.replace('{id}', '0').matches('^[A-Za-z0-9]([-A-Za-z0-9.:]*[A-Za-z0-9])?$')",message="write a host name or IP address, in which {id} stands for the broker's id, such as b{id}.kafka.example.com"
	Host string `json:"host,omitempty"`
	// Port is the port. {id} is not supported. Brokers that share a host need different ports; type
	// NodePort assigns such ports.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// NetworkSource selects the sources of connections, like a peer in a NetworkPolicy.
//
// +kubebuilder:validation:XValidation:rule="has(self.cidr) != (has(self.namespaceSelector) || has(self.podSelector))",message="set cidr, or namespaceSelector and podSelector, or one of these two"
type NetworkSource struct {
	// CIDR is a range of IP addresses, such as 10.0.0.0/8.
	// +optional
	// +kubebuilder:validation:MaxLength=49
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-Fa-f.:]+/[0-9]{1,3}$')",message="write a range of addresses such as 10.0.0.0/8"
	CIDR string `json:"cidr,omitempty"`
	// NamespaceSelector selects namespaces by their labels. Default: the LogCluster's namespace.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// PodSelector selects pods by their labels. Default: all pods of the selected namespaces.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
}
