package v1alpha1

// AuthorizationType is how requests are authorized.
// +kubebuilder:validation:Enum=None;Simple
type AuthorizationType string

const (
	// AuthorizationNone allows every request.
	AuthorizationNone AuthorizationType = "None"
	// AuthorizationSimple allows what the ACLs of LogUsers allow, like Kafka's StandardAuthorizer
	// with allow.everyone.if.no.acl.found=false.
	AuthorizationSimple AuthorizationType = "Simple"
)

// Authorization decides which principals may do what.
type Authorization struct {
	// Type is None (every request is allowed) or Simple (the ACLs of LogUsers apply, and what they
	// do not allow is denied).
	// +required
	Type AuthorizationType `json:"type"`
	// SuperUsers are the names of principals of type User that may do everything (super.users).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	SuperUsers []string `json:"superUsers,omitempty"`
}

// HTTPMetrics is who may read the metrics of brokers.
// +kubebuilder:validation:Enum=Open;Authorized
type HTTPMetrics string

const (
	// HTTPMetricsOpen serves the metrics to every client.
	HTTPMetricsOpen HTTPMetrics = "Open"
	// HTTPMetricsAuthorized serves the metrics to clients with a token that may get
	// logclusters/metrics.
	HTTPMetricsAuthorized HTTPMetrics = "Authorized"
)

// HTTP configures the HTTP port of each broker.
type HTTP struct {
	// Metrics is Open (every client may read the metrics) or Authorized (a client needs a token of
	// a ServiceAccount that may get logclusters/metrics). Default Open. With Authorized the HTTP
	// port has TLS, and brokers connect to each other with mutual TLS.
	// +optional
	Metrics HTTPMetrics `json:"metrics,omitempty"`
	// AllowFrom are the sources, besides the operator and the brokers, from which the NetworkPolicy
	// of the brokers admits connections to the HTTP port, such as Prometheus. Default: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	AllowFrom []NetworkSource `json:"allowFrom,omitempty"`
}

// Peers is how brokers connect to each other.
// +kubebuilder:validation:Enum=Plain;MutualTLS
type Peers string

const (
	// PeersPlain does not authenticate brokers.
	PeersPlain Peers = "Plain"
	// PeersMutualTLS authenticates brokers by certificates of the peer CA.
	PeersMutualTLS Peers = "MutualTLS"
)
